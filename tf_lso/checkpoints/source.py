"""What a file holds, in the same form for every layout.

Each reader makes a `Source` from a file, and `plan` uses only that.
Tensors are read when `Source.read` is called with their entries, and not before.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from tf_lso.checkpoints.errors import CheckpointError

# Steps of a path to a variable that are no attribute. A number follows: of a layer among
# those with weights, as in checkpoints; of a weight of a layer in the order of Keras; of
# a variable among those that an object made itself.
LAYER_STEP, WEIGHT_STEP, VARS_STEP = "layer_with_weights-", "#", "vars"

# The index of a model variable that is not among `Source.variables`.
ELSEWHERE = -1


@dataclasses.dataclass(frozen=True)
class Entry:
    """One tensor of a file."""

    key: str  # in the file
    name: str  # of the variable in the program that wrote the file, or ""
    shape: tuple[int, ...]
    dtype: str  # such as "float32"


@dataclasses.dataclass(frozen=True)
class ModelVariable:
    """A variable of the model in a file."""

    entry: Entry
    # Each a tuple of the steps that lead to it from the model: attributes, and the steps
    # above.
    paths: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Slot:
    """A slot variable of the optimizer in a file."""

    entry: Entry
    # The index in `Source.variables` of the variable that it belongs to, `ELSEWHERE`, or
    # None if the file does not say it.
    variable: int | None
    position: int  # among the slots of the same name


@dataclasses.dataclass
class OptimizerState:
    """The optimizer in a file. None stands for what the file does not say."""

    family: str | None = None  # such as "keras3"; see `optimizers.families`
    class_name: str | None = None
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    iterations: Entry | None = None  # the step counter
    hyperparameters: dict[str, Entry] = dataclasses.field(default_factory=dict)
    slots: dict[str, list[Slot]] = dataclasses.field(default_factory=dict)
    # Such as Nadam's "momentum_cache".
    scalars: dict[str, Entry] = dataclasses.field(default_factory=dict)
    # All variables in the order in which the optimizer made them, without the counter
    # and the learning rate. Also those that are slots or scalars.
    listed: list[Entry] = dataclasses.field(default_factory=list)
    # The indices in `Source.variables` of what the optimizer was built for, in order.
    order: list[int | None] = dataclasses.field(default_factory=list)
    others: list[Entry] = dataclasses.field(default_factory=list)  # all else
    scale: Entry | None = None
    count: Entry | None = None  # of finite steps

    def entries(self) -> list[Entry]:
        """Return what the optimizer needs to go on, without counters and settings."""
        slots = [slot.entry for slots in self.slots.values() for slot in slots]
        every = [*self.listed, *slots, *self.scalars.values(), *self.others]
        return list({entry.key: entry for entry in every}.values())


@dataclasses.dataclass
class Source:
    """An open file, or the checkpoint that was read."""

    path: str
    layout: str  # "h5", "keras" or a key of `layouts.LAYOUTS`
    variables: list[ModelVariable]  # in the order in which they were made
    optimizer: OptimizerState | None  # None if the file has none
    keys: list[str]  # of all tensors
    read: Callable[[Entry], Any]  # returns the value, a NumPy array

    def number(self, entry: Entry) -> float:
        """Return the value of an entry that is one number."""
        value = self.read(entry)
        if value.shape != () or value.dtype.kind not in "fiu":
            raise CheckpointError(
                f"{self.path}: the key {entry.key} should be one number, but is of the "
                f"shape {value.shape}."
            )
        return float(value)
