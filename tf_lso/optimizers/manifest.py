"""Say whose state a file holds.

Files contain the state of an optimizer as a list of arrays. A manifest says to which slot and
to which model variable each of these arrays belongs. tf_lso writes a manifest into every file
that has a place for it, and compares the manifest with the optimizer before it loads a value.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tf_lso.frameworks import log
from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import variables as variables_lib

# A checkpoint contains the manifest in the name of a dependency without values. TensorFlow
# looks up all dependencies by name before it restores the first value, so tf_lso can refuse
# the checkpoint. Programs without tf_lso ignore a dependency without values.
NAME = "tf_lso_manifest"
_IN_CHECKPOINTS = f"{NAME}:"

# The names of slots begin with this sign if an optimizer does not keep them in the usual lists,
# so that only their order is known.
UNKNOWN = "#"

# Maps the name of a slot to the argument of the optimizer that creates the slot.
_ARGUMENTS = {
    slot: argument
    for slot, (argument, _) in {**table.MADE_BY, **table.ACCUMULATION}.items()
}
# Matches the numbers that Keras appends to the default names of layers, as in "dense_1" for the
# second dense layer of a process. A second layer "dense_1" in a graph becomes "dense_1_1".
_NUMBER = re.compile(r"(_\d+)+(?=/|$)")
# Matches the name of a Sequential model, which Keras 3 puts before the names of its layers.
_SEQUENTIAL = re.compile(r"^sequential(_\d+)?/")

_REMEDY = (
    "Make the optimizer as it was saved, for the same layers, or restore what fits: "
    "tf_lso.checkpoints.restore(path, model=model, optimizer=optimizer, partial=True). "
    "See `tf-lso help whose-state`"
)


class Manifest(NamedTuple):
    """What the arrays of a saved optimizer are."""

    class_name: str | None
    family: str
    # How many arrays of a file precede the arrays of the slots.
    start: int
    # The names of the inner optimizer's variables that exist before the build, in their order.
    heads: list[str]
    # A pair (slot name, index of the model variable in `paths`) for each array of a slot. The
    # index is None if the array belongs to no model variable, or if this is unknown.
    slots: list[tuple[str, int | None]]
    # The paths of the model variables in the order of the build.
    paths: list[str]
    is_built: bool
    # What identifies these model variables in this process. None if the program has only
    # their paths, from a file.
    keys: list[Any] | None = None

    @property
    def names(self) -> set[str]:
        """The names of the slots."""
        return {slot for slot, _ in self.slots}


def path_of(variable: Any) -> str:
    """Return the path of a model variable, such as "sequential/dense/kernel"."""
    return variables_lib.name_of(variable).split(":")[0]


def labels(
    optimizer: Any,
    variables: list[Any],
    built: list[Any],
    added: dict[str, dict[int, Any]] | None = None,
) -> list[tuple[str, int | None]]:
    """Return a pair (slot, index of the model variable in `built`) for each of `variables`.

    `optimizer` keeps its slots in lists, in the same order as the model variables in `built`.
    The slots `added` by `add_slot` are in a dict {slot name: {index in `built`: slot}}.
    """
    names = table.slot_of_attributes(optimizer)
    numbers = {getattr(v, "path", None): number for number, v in enumerate(built)}
    found: dict[int, tuple[str, int | None]] = {}
    for attribute, held in vars(optimizer).items():
        name = names.get(attribute, attribute)
        if attribute in table.LISTS_OF_VARIABLES:
            continue
        pairs: list[tuple[Any, int | None]]
        if isinstance(held, dict):
            pairs = [(v, numbers[key]) for key, v in held.items() if key in numbers]
        elif isinstance(held, (list, tuple)):
            are_slots = len(held) == len(built)
            pairs = [(v, n) for n, v in enumerate(held)] if are_slots else []
        else:
            pairs = [(held, None)]
        found.update((id(v), (name, number)) for v, number in pairs)
    for name, by_number in (added or {}).items():
        found.update((id(v), (name, number)) for number, v in by_number.items())
    return [found.get(id(v), (f"{UNKNOWN}{n}", None)) for n, v in enumerate(variables)]


def to_json(manifest: Manifest) -> str:
    """Return a manifest as text, which contains each slot name and each path only once."""
    slots = list(dict.fromkeys(slot for slot, _ in manifest.slots))
    arrays = [(slots.index(slot), -1 if n is None else n) for slot, n in manifest.slots]
    config = {
        "class_name": manifest.class_name,
        "family": manifest.family,
        "start": manifest.start,
        "heads": manifest.heads,
        "is_built": manifest.is_built,
        "slots": slots,
        "paths": manifest.paths,
        "arrays": arrays,
    }
    return json.dumps(config, separators=(",", ":"))


def from_json(text: str) -> Manifest:
    """Return the manifest that `to_json` has written."""
    config = json.loads(text)
    slots = config.pop("slots")
    arrays = [(slots[slot], None if n < 0 else n) for slot, n in config.pop("arrays")]
    return Manifest(**config, slots=arrays)


def name_in_checkpoints(manifest: Manifest) -> str:
    """Return the name of the dependency by which a checkpoint contains the manifest."""
    return _IN_CHECKPOINTS + to_json(manifest)


def from_name(name: str) -> Manifest | None:
    """Return the manifest in the name of a dependency, or None if it contains no manifest."""
    prefix, found, text = name.partition(_IN_CHECKPOINTS)
    return from_json(text) if found and not prefix else None


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
        made_by = {**table.MADE_BY, **table.ACCUMULATION}
        arguments = [
            "{}={}".format(*made_by[name])
            for name in sorted(sides["in the file"])
            if name in made_by
        ]
        example = f"{own.class_name}({', '.join(['...', *arguments])})"
        raise ValueError(
            f"The optimizer in the file was made with other arguments, such as {example}: "
            f"it has {', '.join(differing)}. {_REMEDY}"
        )


def variables_in_order(saved: Manifest, own: Manifest) -> list[int]:
    """Return the index in `saved.paths` for each of `own.paths`.

    The two lists may contain the same paths in different orders. If they have no path in
    common, because the model was made a second time in a process, the names without numbers
    decide, and then the order. Raise ValueError if only some of the paths are in both lists.
    """
    if saved.keys is not None and own.keys is not None:
        places = {key: place for place, key in enumerate(saved.keys)}
        if {*own.keys} == {*saved.keys}:
            return [places[key] for key in own.keys]
        raise _of_other_variables(saved.paths, own.paths, saved.keys, own.keys)
    paths, owns = ([*map(_below_sequential, m.paths)] for m in (saved, own))
    exact: list[Callable[[str], str]] = [str]
    if (saved.family == "keras3") != (own.family == "keras3"):
        # Only Keras 3 puts the names of inner Sequential models into the paths.
        exact.append(_layer_and_variable)
    for form in (*exact, _without_number_of_model, _without_numbers):
        in_file, here = [*map(form, paths)], [*map(form, owns)]
        is_unique = len({*here}) == len(here)
        if in_file == here or (is_unique and sorted(in_file) == sorted(here)):
            if form not in exact:
                _warn_renamed(saved, own)
            if in_file == here:
                # Several variables may have the same path. Then their order decides.
                return [*range(len(here))]
            return [in_file.index(path) for path in here]
        if {*in_file} & {*here}:
            break
    raise _of_other_variables(saved.paths, own.paths, paths, owns)


def _of_other_variables(paths, owns, keys, own_keys):
    in_file = [path for path, key in zip(paths, keys) if key not in own_keys]
    here = [path for path, key in zip(owns, own_keys) if key not in keys]
    return ValueError(
        "The file has slots of other model variables: only the file has "
        f"{_shown(in_file)}, and only this optimizer has {_shown(here)}. Was another layer "
        f"frozen, or a layer renamed? {_REMEDY}"
    )


def _warn_renamed(saved, own):
    log.logger().warning(
        f"The model variables in the file are called {_shown(saved.paths)}, and here "
        f"{_shown(own.paths)}. Only the numbers in the names differ, so this is taken for the "
        "same model, made a second time. If other layers are frozen than when the file was "
        "saved, the optimizer now has the state of other variables: give all layers "
        "different names, without numbers at the end. See `tf-lso help whose-state`"
    )


def indices_in_common(saved: Manifest, own: Manifest) -> list[int | None]:
    """Return the index in `saved.paths` for each of `own.paths`, or None if it is not there."""
    paths, owns = ([*map(_below_sequential, m.paths)] for m in (saved, own))
    return [
        paths.index(path) if paths.count(path) == owns.count(path) == 1 else None
        for path in owns
    ]


def _below_sequential(path):
    return _SEQUENTIAL.sub("", path)


def _layer_and_variable(path):
    return "/".join(path.split("/")[-2:])


def _without_number_of_model(path):
    model, slash, below = path.partition("/")
    return f"{_without_numbers(model)}{slash}{below}"


def _without_numbers(path):
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
