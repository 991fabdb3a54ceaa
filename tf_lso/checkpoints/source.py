"""The contents of a file in one form for all formats. Values are read on demand."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

# The value of `Entry.of` if the file does not say to which variable a slot belongs.
UNKNOWN = "unknown"


class CheckpointError(ValueError):
    """A file cannot be read or does not fit. The message names the file."""


@contextlib.contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn every error in a `with` block into a CheckpointError.

    The message begins with `what`, followed by the first line of the original error.
    """
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise CheckpointError(f"{what} ({lines[0].rstrip('.')}).") from error


@dataclasses.dataclass(frozen=True)
class Entry:
    """A tensor in a file, and what the file says about the variable of this tensor."""

    key: str  # the key of the tensor in the file
    name: str  # the name of the variable in the program that wrote the file, or ""
    shape: tuple[int, ...]
    dtype: str  # the name of the dtype, such as "float32"
    # Paths from the model to the variable. A step of a path is the name of an attribute or a
    # step that `layouts` defines.
    paths: tuple[tuple[str, ...], ...] = ()
    # The name of the slot, or None if the file does not contain a name. For a variable of the
    # optimizer that is not a slot, this is a name such as "momentum_cache".
    slot: str | None = None
    # The model variable to which a slot belongs, as a key of `Source.variables`. None if the
    # tensor is not a slot.
    of: Any = UNKNOWN


@dataclasses.dataclass
class OptimizerState:
    """The optimizer in a file. A field that the file does not contain is None."""

    # The optimizer family, such as "keras3". See `optimizers.families`.
    family: str | None = None
    class_name: str | None = None
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    iterations: Entry | None = None  # the step counter of the optimizer
    scale: Entry | None = None
    count: Entry | None = None  # the loss scale's count of consecutive finite steps
    hyperparameters: dict[str, Entry] = dataclasses.field(default_factory=dict)
    # All other variables of the optimizer. Variables that the file lists come first, in the
    # order in which the optimizer created the variables.
    made: list[Entry] = dataclasses.field(default_factory=list)
    # The model variables for which the optimizer was built, as keys of `Source.variables`.
    order: list[Any] = dataclasses.field(default_factory=list)

    @property
    def slots(self) -> set[str]:
        """The set of all slot names that the file contains."""
        return {e.slot for e in self.made if e.slot is not None and e.of is not None}


@dataclasses.dataclass
class Source:
    """An open file or checkpoint."""

    path: str
    layout: str  # the layout of the file: "h5", "keras" or a key of `layouts.LAYOUTS`
    variables: dict[Any, Entry]  # the model's variables in order of creation
    optimizer: OptimizerState | None  # the saved optimizer, or None
    keys: list[str]  # the keys of all tensors
    read: Callable[[Entry], Any]  # returns the value of an `Entry` as a NumPy array

    def number(self, entry: Entry) -> float:
        """Return the value of a scalar entry as a float, or raise CheckpointError."""
        value = self.read(entry)
        if value.shape != () or value.dtype.kind not in "fiu":
            what = f"{self.path}: the key {entry.key} should be one number"
            raise CheckpointError(f"{what}, but has the shape {value.shape}.")
        return float(value)
