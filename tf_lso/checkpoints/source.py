"""What a file holds, in the same form for every format; its tensors are read later."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

# `Entry.of` of a slot whose variable the file does not say.
UNKNOWN = "unknown"


class CheckpointError(ValueError):
    """A file cannot be read, or what is in it does not fit; the message names it."""


@contextlib.contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn whatever a damaged file raises into a CheckpointError: `what` and why."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise CheckpointError(f"{what} ({lines[0].rstrip('.')}).") from error


@dataclasses.dataclass(frozen=True)
class Entry:
    """One tensor of a file, and what the file says of its variable."""

    key: str  # in the file
    name: str  # of the variable in the program that wrote the file, or ""
    shape: tuple[int, ...]
    dtype: str  # such as "float32"
    # Each the steps that lead to it from the model: attributes, and steps of `layouts`.
    paths: tuple[tuple[str, ...], ...] = ()
    # Of a variable of the optimizer: the name of the slot, or of another variable, such
    # as "momentum_cache"; None if the file does not say it.
    slot: str | None = None
    # The key in `Source.variables` of what a slot belongs to, None for what is no slot.
    of: Any = UNKNOWN


@dataclasses.dataclass
class OptimizerState:
    """The optimizer in a file. None stands for what the file does not say."""

    family: str | None = None  # such as "keras3"; see `optimizers.families`
    class_name: str | None = None
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    iterations: Entry | None = None  # the step counter
    scale: Entry | None = None
    count: Entry | None = None  # of finite steps
    hyperparameters: dict[str, Entry] = dataclasses.field(default_factory=dict)
    # All other variables; first those that the file lists, in the order of their making.
    made: list[Entry] = dataclasses.field(default_factory=list)
    # The keys in `Source.variables` of what the optimizer was built for, in order.
    order: list[Any] = dataclasses.field(default_factory=list)

    @property
    def slots(self) -> set[str]:
        """The names of the slots, where the file says them."""
        return {e.slot for e in self.made if e.slot is not None and e.of is not None}


@dataclasses.dataclass
class Source:
    """An open file, or the checkpoint that was read."""

    path: str
    layout: str  # "h5", "keras" or a key of `layouts.LAYOUTS`
    variables: dict[Any, Entry]  # of the model, in the order in which they were made
    optimizer: OptimizerState | None  # None if the file has none
    keys: list[str]  # of all tensors
    read: Callable[[Entry], Any]  # returns the value, a NumPy array

    def number(self, entry: Entry) -> float:
        """Return the value of an entry that is one number."""
        value = self.read(entry)
        if value.shape != () or value.dtype.kind not in "fiu":
            what = f"{self.path}: the key {entry.key} should be one number"
            raise CheckpointError(f"{what}, but has the shape {value.shape}.")
        return float(value)
