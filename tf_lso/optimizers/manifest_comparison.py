"""Compare what a file says about its optimizer with the optimizer that loads the file.

`saved` is the manifest in the file, and `own` is that of the optimizer.
"""

import collections
import re

from tf_lso.frameworks import log
from tf_lso.frameworks import optimizer_table as table
from tf_lso.optimizers.manifest import UNKNOWN, Manifest

_MADE_BY = {**table.MADE_BY, **table.ACCUMULATION}
_ARGUMENTS = {slot: argument for slot, (argument, _) in _MADE_BY.items()}
# Matches the numbers that Keras appends to the default names of layers, as in "dense_1" for the
# second dense layer of a process. A second "dense_1" in a graph of Keras 2 becomes "dense_1_1".
_NUMBER = re.compile(r"_\d+(?=/|$)")
# Matches the default name of a Sequential model, which Keras 3 puts before those of its layers.
_IS_SEQUENTIAL = re.compile(r"sequential(_\d+)?").fullmatch

_REMEDY = (
    "Create the optimizer as it was saved, for the same layers, or restore what fits: "
    "tf_lso.checkpoints.restore(path, model=model, optimizer=optimizer, partial=True). "
    "See `tf-lso help whose-state`"
)
_MADE_AGAIN = (
    "Only the numbers in the names differ, so tf_lso assumes that this is the same model, "
    "created a second time. Perhaps other layers are frozen than when the file was saved."
)
_REORDERED = (
    "They are matched by these names. Some of these differ only in a number, so perhaps "
    "the layers were created in another order than in the program that saved the file."
)


def check_kind(saved: Manifest, own: Manifest) -> None:
    """Raise ValueError if the optimizers differ in class or in the kind of learning rate."""
    if saved.class_name not in (None, own.class_name):
        raise ValueError(
            f"The file has the state of an optimizer of the class {saved.class_name}, but "
            f"this one is of {own.class_name}. {_REMEDY}"
        )
    if saved.family == own.family and saved.heads != own.heads:
        kinds = ["schedule", "number"]
        in_file, here = (kinds["learning_rate" in m.heads] for m in (saved, own))
        raise ValueError(
            f"The learning_rate of the {own.class_name} in the file is a {in_file}, but the "
            f"one here is a {here}. {_REMEDY}"
        )


def check_slots(saved: Manifest, own: Manifest) -> None:
    """Raise ValueError if an optimizer with other slots wrote a file."""
    sides = {
        "in the file": saved.names - own.names,
        "here": own.names - saved.names,
    }
    differing = [
        f"{_ARGUMENTS.get(name, f'a slot {name!r}')} only {where}"
        for where, names in sides.items()
        for name in sorted(names)
    ]
    if differing:
        arguments = [
            "{}={}".format(*_MADE_BY[name])
            for name in sorted(sides["in the file"])
            if name in _MADE_BY
        ]
        example = f"{own.class_name}({', '.join(['...', *arguments])})"
        raise ValueError(
            f"The optimizer in the file was created with other arguments, such as {example}: "
            f"it has {', '.join(differing)}. {_REMEDY}"
        )


def variables_in_order(saved: Manifest, own: Manifest) -> list[int]:
    """Return the index in `saved.paths` for each of `own.paths`.

    The two lists may contain the same paths in different orders. If they have no path in
    common, because the model was made a second time in a process, the names without numbers
    decide, and otherwise the order. The function then logs a warning. It also logs a warning
    if the orders differ and the paths differ only in numbers. Raise ValueError if only some
    of the paths are in both lists.
    """
    if saved.keys is not None and own.keys is not None:
        places = {key: place for place, key in enumerate(saved.keys)}
        if {*own.keys} == {*saved.keys}:
            return [places[key] for key in own.keys]
        raise _of_other_variables(saved.paths, own.paths, saved.keys, own.keys)
    paths, owns = _below_sequential(saved.paths), _below_sequential(own.paths)
    raw = saved.paths, own.paths
    for in_file, here in (raw, (paths, owns)):
        order = _order(in_file, here)
        if order is not None:
            if order != sorted(order) and _differ_by_numbers(*raw):
                _warn(saved, own, _REORDERED)
            return order
    if (saved.family == "keras3") != (own.family == "keras3"):
        order = _order_in_other_keras(*raw)
        if order is not None:
            return order
    if not any({*in_file} & {*here} for in_file, here in (raw, (paths, owns))):
        order = _order_without_numbers(paths, owns)
        if order is not None:
            _warn(saved, own, _MADE_AGAIN)
            return order
    raise _of_other_variables(saved.paths, own.paths, paths, owns)


def _order(in_file, here):
    """Return the index in `in_file` for each of `here`, or None if they do not correspond."""
    if in_file == here:
        # Several variables may have the same path. Then their order decides.
        return [*range(len(here))]
    is_unique = len({*here}) == len(here)
    if is_unique and sorted(in_file) == sorted(here):
        return [in_file.index(path) for path in here]
    return None


def _order_in_other_keras(paths, owns):
    """Return the order if one of the two optimizers is of Keras 3, and the other of Keras 2.

    Only Keras 3 puts the names of inner Sequential models into the paths, and the names of
    models around a layer may be missing in one of the two.
    """
    in_file, here = (
        ["/".join(p for p in path.split("/") if not _IS_SEQUENTIAL(p)) for path in side]
        for side in (paths, owns)
    )
    order = _order(
        *(["/".join(path.split("/")[-2:]) for path in side] for side in (in_file, here))
    )
    is_below = order is not None and all(
        f"/{a}".endswith(f"/{b}") or f"/{b}".endswith(f"/{a}")
        for a, b in zip([in_file[n] for n in order], here)
    )
    is_merged = any(
        len({*before}) != len({*after})
        for before, after in ((paths, in_file), (owns, here))
    )
    return order if is_below and not is_merged else None


def _order_without_numbers(paths, owns):
    in_file, here = ([*map(_without_number_of_model, side)] for side in (paths, owns))
    order = _order(in_file, here)
    if order is None and not {*in_file} & {*here}:
        order = _order(*([*map(_without_number, side)] for side in (paths, owns)))
        if order is None and _differ_by_numbers(paths, owns):
            order = [*range(len(owns))]
    return order


def _differ_by_numbers(paths, owns):
    """Return whether the paths at each position differ by a number at the ends of names."""
    return len(paths) == len(owns) and all(
        {a, _without_number(a)} & {b, _without_number(b)} for a, b in zip(paths, owns)
    )


def _of_other_variables(paths, owns, keys, own_keys):
    in_file = _only_in(paths, keys, own_keys)
    here = _only_in(owns, own_keys, keys)
    if not in_file and not here:
        in_file, here = paths, owns  # Several have the same path, so the order decides.
    return ValueError(
        "The file has slots of other model variables: only the file has "
        f"{_shown(in_file)}, and only this optimizer has {_shown(here)}. Was another layer "
        f"frozen, or a layer renamed? {_REMEDY}"
    )


def _only_in(paths, keys, others):
    """Return the paths whose keys occur more often in `keys` than in `others`."""
    left, found = collections.Counter(others), []
    for path, key in zip(paths, keys):
        left[key] -= 1
        if left[key] < 0:
            found.append(path)
    return found


def _warn(saved, own, text):
    log.logger().warning(
        f"The model variables in the file are called {_shown(saved.paths)}, and here "
        f"{_shown(own.paths)}. {text} If so, the optimizer now has the state of the "
        "wrong variables: give all layers different names, without numbers at the end. "
        "See `tf-lso help whose-state`"
    )


def indices_in_common(saved: Manifest, own: Manifest) -> list[int | None]:
    """Return the index in `saved.paths` for each of `own.paths`, or None if it is not there."""
    paths, owns = _below_sequential(saved.paths), _below_sequential(own.paths)
    return [
        paths.index(path) if paths.count(path) == owns.count(path) == 1 else None
        for path in owns
    ]


def _below_sequential(paths):
    """Return the paths without the name of a Sequential model that begins all of them."""
    begins = {path.split("/")[0] for path in paths}
    if len(begins) == 1 and _IS_SEQUENTIAL(*begins):
        return [path.partition("/")[2] for path in paths]
    return paths


def _without_number_of_model(path):
    model, slash, below = path.partition("/")
    # A path of two parts begins with the name of a layer.
    return f"{_without_number(model)}{slash}{below}" if "/" in below else path


def _without_number(path):
    return _NUMBER.sub("", path)


def _shown(paths):
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return f"{paths[:5]}{more}"


def places(saved: Manifest, own: Manifest) -> list[int]:
    """Return the index of the saved array for each slot, or raise ValueError."""
    check_slots(saved, own)
    if not own.slots:
        return []
    order = variables_in_order(saved, own)
    if len(saved.slots) != len(own.slots):
        raise ValueError(
            f"The file has {len(saved.slots)} slots, but the optimizer has "
            f"{len(own.slots)}. {_REMEDY}"
        )
    unknown = sorted(name for name in own.names if name.startswith(UNKNOWN))
    if unknown and order != sorted(order):
        raise ValueError(
            f"The optimizer does not say to which model variables {len(unknown)} of its "
            f"variables belong, and it was built in the order of {_shown(saved.paths)} when "
            f"the file was saved. Build it in this order. {_REMEDY}"
        )
    indices = {label: index for index, label in enumerate(saved.slots)}
    wanted = [(slot, None if n is None else order[n]) for slot, n in own.slots]
    lacking = [slot for slot, n in wanted if (slot, n) not in indices]
    if lacking:
        raise ValueError(f"The file lacks the slot {lacking[0]!r}. {_REMEDY}")
    return [indices[label] for label in wanted]
