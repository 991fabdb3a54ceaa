"""Say whose state a file holds.

Files contain the state of an optimizer as a list of arrays. A manifest says to which slot and
to which model variable each of these arrays belongs. tf_lso writes a manifest into every file
that has a place for it, and compares the manifest with the optimizer before it loads a value.
"""

import json
import re
from typing import Any, NamedTuple

from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import variables as variables_lib

# A checkpoint contains the manifest in the name of a dependency without values. TensorFlow
# looks up all dependencies by name before it restores the first value, so tf_lso can refuse
# the checkpoint. Programs without tf_lso ignore a dependency without values.
NAME = "tf_lso_manifest"
_IN_CHECKPOINTS = f"{NAME}:"

# Maps the name of a slot to the argument of the optimizer that creates the slot.
_ARGUMENTS = {
    slot: argument
    for slot, (argument, _) in {**table.MADE_BY, **table.ACCUMULATION}.items()
}
# Matches the numbers that Keras appends to the default names of layers, as in "dense_1" for the
# second dense layer of a process.
_NUMBER = re.compile(r"_\d+(?=/|$)")

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
    # A pair (slot name, path of the model variable) for each array of a slot. The path is
    # None if the array belongs to no model variable.
    slots: list[tuple[str, str | None]]
    is_built: bool

    @property
    def names(self) -> set[str]:
        """The names of the slots."""
        return {slot for slot, _ in self.slots}

    @property
    def paths(self) -> list[str]:
        """The paths of the model variables, in the order of the file."""
        return list(dict.fromkeys(path for _, path in self.slots if path is not None))


def path_of(variable: Any) -> str:
    """Return the path of a model variable, such as "sequential/dense/kernel"."""
    return variables_lib.name_of(variable).split(":")[0]


def labels(optimizer: Any, variables: list[Any], built: list[Any]) -> list[Any]:
    """Return a pair (slot, path of the model variable) for each of `variables`.

    `optimizer` keeps its slots in lists that have the order of the model variables `built`.
    """
    names, paths = table.slot_of_attributes(optimizer), [*map(path_of, built)]
    keys = {getattr(v, "path", None): path for v, path in zip(built, paths)}
    found: dict[int, tuple[str, str | None]] = {}
    for attribute, held in vars(optimizer).items():
        name = names.get(attribute, attribute)
        if attribute in table.LISTS_OF_VARIABLES:
            continue
        pairs: list[tuple[Any, str | None]]
        if isinstance(held, dict):
            pairs = [(v, keys[key]) for key, v in held.items() if key in keys]
        elif isinstance(held, (list, tuple)):
            pairs = list(zip(held, paths)) if len(held) == len(paths) else []
        else:
            pairs = [(held, None)]
        found.update((id(v), (name, path)) for v, path in pairs)
    return [found.get(id(v), (f"#{n}", None)) for n, v in enumerate(variables)]


def to_json(manifest: Manifest) -> str:
    """Return a manifest as text, which contains each slot name and each path only once."""
    slots = list(dict.fromkeys(slot for slot, _ in manifest.slots))
    paths = manifest.paths
    places = {None: -1} | {path: number for number, path in enumerate(paths)}
    arrays = [(slots.index(slot), places[path]) for slot, path in manifest.slots]
    config = {
        "class_name": manifest.class_name,
        "family": manifest.family,
        "start": manifest.start,
        "heads": manifest.heads,
        "is_built": manifest.is_built,
        "slots": slots,
        "paths": paths,
        "arrays": arrays,
    }
    return json.dumps(config, separators=(",", ":"))


def from_json(text: str) -> Manifest:
    """Return the manifest that `to_json` has written."""
    config = json.loads(text)
    slots, paths = config.pop("slots"), [*config.pop("paths"), None]
    arrays = [(slots[slot], paths[path]) for slot, path in config.pop("arrays")]
    return Manifest(**{name: config[name] for name in config}, slots=arrays)


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


def check(saved: Manifest, own: Manifest) -> None:
    """Raise ValueError if an optimizer of another class or with other slots wrote a file."""
    check_kind(saved, own)
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


def variables_in_order(saved: Manifest, own: Manifest) -> dict[str, str]:
    """Return {path of a model variable in `own`: its path in `saved`}.

    The paths may be the same in any order. If none of them are the same, because the model
    was made a second time in a process, the order decides. The function raises ValueError if
    only some of the paths are the same, or if the order cannot be known.
    """
    paths, owns = saved.paths, own.paths
    # A model that is made again has another name, which is a part of the paths in Keras 3. So
    # the name of the layer and of its variable may also decide, or the path without numbers.
    forms = (str, _without_number_of_model, _layer_and_variable, _without_numbers)
    for form in forms:
        in_file, here = [*map(form, paths)], [*map(form, owns)]
        if sorted(in_file) == sorted(here) and len({*here}) == len(here):
            return {path: paths[in_file.index(form(path))] for path in owns}
    in_file, here = ([*map(_layer_and_variable, listed)] for listed in (paths, owns))
    are_renamed = not {*in_file} & {*here}
    if are_renamed and [*map(_without_numbers, in_file)] == [
        *map(_without_numbers, here)
    ]:
        return dict(zip(owns, paths))
    only = [[p for p in a if p not in b] for a, b in ((in_file, here), (here, in_file))]
    raise ValueError(
        "The file has slots of other model variables: only the file has "
        f"{_shown(only[0])}, and only this optimizer has {_shown(only[1])}. Was another "
        f"layer frozen, or a layer renamed? {_REMEDY}"
    )


def paths_in_common(saved: Manifest, own: Manifest) -> dict[str, str]:
    """Return {path in `own`: path in `saved`} for the layers that both of them have."""
    in_file = {_layer_and_variable(path): path for path in saved.paths}
    here = {path: in_file.get(_layer_and_variable(path)) for path in own.paths}
    return {path: found for path, found in here.items() if found is not None}


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
    check(saved, own)
    if len(saved.paths) != len(own.paths):
        variables_in_order(saved, own)  # which raises the error
    if len(saved.slots) != len(own.slots):
        raise ValueError(
            f"The file has {len(saved.slots)} slots, but the optimizer has "
            f"{len(own.slots)}. {_REMEDY}"
        )
    if saved.slots == own.slots:
        return [*range(len(own.slots))]
    path_in_file: dict[Any, Any] = {None: None}
    path_in_file.update(variables_in_order(saved, own))
    indices: dict[Any, int] = {}
    for index, label in enumerate(saved.slots):
        indices.setdefault(label, index)
    try:
        found = [indices[slot, path_in_file[path]] for slot, path in own.slots]
    except KeyError as error:
        raise ValueError(
            f"The file lacks the slot {error.args[0]}. {_REMEDY}"
        ) from error
    if len({*found}) < len(found):
        raise ValueError(
            "Several model variables have the same path, so the file does not say which "
            f"slots belong to which of them. Give them names. {_REMEDY}"
        )
    return found
