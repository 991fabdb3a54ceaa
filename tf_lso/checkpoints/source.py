"""What a file holds, in the same form for every layout.

Each reader makes a `Source` from a file, and `plan` uses only that. Tensors are read when
`Source.read` is called with their entries, and not before.
"""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Entry:
    """One tensor of a file.

    Attributes:
      key: str, its key in the file.
      name: str, the name of the variable in the program that wrote the file, or "".
      shape: tuple of int.
      dtype: str, such as "float32".
    """

    key: str
    name: str
    shape: tuple
    dtype: str


@dataclasses.dataclass(frozen=True)
class ModelVariable:
    """A variable of the model in a file.

    Attributes:
      entry: its `Entry`.
      paths: tuple of paths, each a tuple of the steps that lead to it from the model:
        attributes, `hdf5.LAYER`, `hdf5.WEIGHT` and `keras_archive.VARS` with a number.
    """

    entry: Entry
    paths: tuple


@dataclasses.dataclass(frozen=True)
class Slot:
    """A slot variable of the optimizer in a file.

    Attributes:
      entry: its `Entry`.
      variable: int, the index in `Source.variables` of the variable that it belongs to,
        or None if the file does not say it.
      position: int, its position among the slots of the same name.
    """

    entry: Entry
    variable: int | None
    position: int


@dataclasses.dataclass
class OptimizerState:
    """The optimizer in a file.

    Attributes:
      class_name: str, or None if the file does not say it.
      iterations: the `Entry` of the step counter, or None.
      hyperparameters: dict of name in OptimizerV2 and `Entry`.
      slots: dict of slot name in the file and list of `Slot`.
      scalars: dict of name and `Entry`, such as Nadam's "momentum_cache".
      listed: list of `Entry` without names, in the order in which the newer optimizers
        make their variables, without the counter.
      scale: the `Entry` of the loss scale, or None.
      count: the `Entry` of the count of finite steps, or None.
    """

    class_name: str | None = None
    iterations: Entry | None = None
    hyperparameters: dict = dataclasses.field(default_factory=dict)
    slots: dict = dataclasses.field(default_factory=dict)
    scalars: dict = dataclasses.field(default_factory=dict)
    listed: list = dataclasses.field(default_factory=list)
    scale: Entry | None = None
    count: Entry | None = None


@dataclasses.dataclass
class Source:
    """An open file.

    Attributes:
      path: str.
      layout: str, a key of `layouts.LAYOUTS`.
      variables: list of `ModelVariable`, in the order in which they were made.
      optimizer: `OptimizerState`, or None if the file has none.
      keys: list of str, all tensors of the file.
      read: function of an `Entry` that returns its value, a NumPy array.
      close: function that closes the file.
      architecture: function that returns the config of the model and its compile config,
        each a dict, or None if the file does not have it.
    """

    path: str
    layout: str
    variables: list
    optimizer: OptimizerState | None
    keys: list
    read: Callable
    close: Callable = lambda: None
    architecture: Callable = lambda: (None, None)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
