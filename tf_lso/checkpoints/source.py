"""The contents of a file in one form for all formats. Values are read on demand."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

# The value of `Entry.of` if the file does not say to which model variable a slot belongs.
UNKNOWN = "unknown"


class CheckpointError(ValueError):
    """A file cannot be read or does not fit. The message names the file."""


@contextlib.contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn every error in a `with` block into a CheckpointError that begins with `what`."""
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

    key: str
    # The name of the variable in the program that wrote the file, or "".
    name: str
    shape: tuple[int, ...]
    dtype: str
    # The paths from the model to the variable. `layouts` explains their steps.
    paths: tuple[tuple[str, ...], ...] = ()
    # The name of the slot, or of another optimizer variable, such as "momentum_cache". None if
    # the file does not contain a name.
    slot: str | None = None
    # The model variable to which a slot belongs, as a key of `Source.variables`. None if the
    # tensor is not a slot.
    of: Any = UNKNOWN


@dataclasses.dataclass
class OptimizerState:
    """The optimizer in a file. If a field is None or empty, the file lacks its value."""

    # See `optimizers.families`.
    family: str | None = None
    class_name: str | None = None
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    iterations: Entry | None = None
    scale: Entry | None = None
    count: Entry | None = None  # the loss scale's count of consecutive finite steps
    hyperparameters: dict[str, Entry] = dataclasses.field(default_factory=dict)
    # The `Manifest` that tf_lso has written. It describes the first entries of `made`.
    manifest: Any = None
    # All other variables. Those that the file lists come first, in the order of their creation.
    made: list[Entry] = dataclasses.field(default_factory=list)
    # The model variables for which the optimizer was built, as keys of `Source.variables`.
    order: list[Any] = dataclasses.field(default_factory=list)

    @property
    def slots(self) -> set[str]:
        return {e.slot for e in self.made if e.slot is not None and e.of is not None}


@dataclasses.dataclass
class Source:
    """An open file or checkpoint."""

    path: str
    # See `RestoreReport.layout`.
    layout: str
    # The model variables. Each format has its own kind of keys.
    variables: dict[Any, Entry]
    optimizer: OptimizerState | None
    keys: list[str]
    # Returns a NumPy array.
    read: Callable[[Entry], Any]
    # See `layouts.trained_layers`. The list is empty if the file has no config.
    trained_layers: list[bool] = dataclasses.field(default_factory=list)

    def number(self, entry: Entry) -> float:
        """Return the value of a scalar tensor as a float, or raise CheckpointError."""
        value = self.read(entry)
        if value.shape != () or value.dtype.kind not in "fiu":
            what = f"{self.path}: the key {entry.key} should be one number"
            raise CheckpointError(f"{what}, but has the shape {value.shape}.")
        return float(value)
