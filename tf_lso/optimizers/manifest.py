"""Say whose state a file holds.

Files contain the state of an optimizer as a list of arrays. A manifest says to which slot and
to which model variable each of these arrays belongs. tf_lso writes a manifest into every file
that has a place for it, and compares the manifest with the optimizer before it loads a value.
"""

import json
from typing import Any, NamedTuple

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
