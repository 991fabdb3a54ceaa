"""The contents of a file in one form for all formats. Values are read on demand."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

# The field `Entry.of` has this value if the file does not say to which model variable a slot
# belongs.
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

    # `key` is the name under which the file stores the tensor.
    key: str
    # `name` is the name of the variable in the program that wrote the file, or "".
    name: str
    shape: tuple[int, ...]
    # `dtype` is the name of the dtype, such as "float32".
    dtype: str
    # `paths` are the paths from the model to the variable. A step of a path is the name of an
    # attribute, or a prefix and a number, such as "layer_with_weights-2".
    paths: tuple[tuple[str, ...], ...] = ()
    # `slot` is the name of the slot, or None if the file does not contain a name. For an
    # optimizer variable that is not a slot, this is a name such as "momentum_cache".
    slot: str | None = None
    # `of` is the key of the model variable to which a slot belongs, as in `Source.variables`.
    # The key is None if the tensor is not a slot.
    of: Any = UNKNOWN


@dataclasses.dataclass
class OptimizerState:
    """The optimizer in a file. If a field is None or empty, the file lacks its value."""

    # The optimizer family, such as "keras3". See `optimizers.families`.
    family: str | None = None
    class_name: str | None = None
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    iterations: Entry | None = None  # the step counter of the optimizer
    scale: Entry | None = None
    count: Entry | None = None  # the loss scale's count of consecutive finite steps
    hyperparameters: dict[str, Entry] = dataclasses.field(default_factory=dict)
    # The `Manifest` that tf_lso has written. It describes the first entries of `made`.
    manifest: Any = None
    # All other variables of the optimizer. Variables that the file lists come first, in the
    # order in which the optimizer created the variables.
    made: list[Entry] = dataclasses.field(default_factory=list)
    # The keys of the model variables for which the optimizer was built. They are keys of the
    # dict `Source.variables`.
    order: list[Any] = dataclasses.field(default_factory=list)

    @property
    def slots(self) -> set[str]:
        """The set of all slot names that the file contains."""
        return {e.slot for e in self.made if e.slot is not None and e.of is not None}


@dataclasses.dataclass
class Source:
    """An open file or checkpoint."""

    path: str
    # `layout` says how the file stores the variables, as `Report.layout` does.
    layout: str
    # `variables` maps a key of each model variable to its `Entry`, in order of creation.
    variables: dict[Any, Entry]
    # `optimizer` is the saved optimizer. None means that the file or this source has none.
    optimizer: OptimizerState | None
    # `keys` contains the keys of all tensors in the file.
    keys: list[str]
    # `read` returns the value of the tensor that an `Entry` describes, as a NumPy array.
    read: Callable[[Entry], Any]
    # For each layer in the model's config, whether the layer was trained. See
    # `layouts.trained_layers`. The list is empty if the file has no config.
    trained_layers: list[bool] = dataclasses.field(default_factory=list)

    def number(self, entry: Entry) -> float:
        """Return the value of a scalar tensor as a float, or raise CheckpointError.

        `entry` describes the tensor. The method raises the error if the tensor is not one
        number.
        """
        value = self.read(entry)
        if value.shape != () or value.dtype.kind not in "fiu":
            what = f"{self.path}: the key {entry.key} should be one number"
            raise CheckpointError(f"{what}, but has the shape {value.shape}.")
        return float(value)
