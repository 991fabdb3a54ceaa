"""What a file holds, told the same way for every layout.

A reader makes a `Source` of a file; `plan` asks nothing else. A tensor is read when
`Source.read` is called with its entry, and not before.
"""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Entry:
    """One tensor of a file.

    Attributes:
      key: str, where it stands in the file.
      name: str, what the variable was called in the program that wrote it, or "".
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
        attributes, and the steps of `layouts`.
    """

    entry: Entry
    paths: tuple


@dataclasses.dataclass(frozen=True)
class Slot:
    """A slot variable of the optimizer in a file.

    Attributes:
      entry: its `Entry`.
      variable: int, the index in `Source.variables` of the variable that it belongs to,
        or None where the file does not say.
      position: int, its place among the slots of its kind.
    """

    entry: Entry
    variable: int | None
    position: int


@dataclasses.dataclass
class OptimizerState:
    """The optimizer in a file.

    Attributes:
      class_name: str, or None where the file does not say.
      iterations: the `Entry` of the step counter, or None.
      hyperparameters: dict of name and `Entry`, as OptimizerV2 called them.
      slots: dict of a slot's name, as the file has it, and list of `Slot`.
      scalars: dict of name and `Entry`, such as Nadam's "momentum_cache".
      listed: list of `Entry` in the order in which the newer optimizers make their
        variables, the counter apart, where the file says no more than that.
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
    """A file that was opened.

    Attributes:
      path: str.
      layout: str, a row of the table in compat_docs/checkpoints.md.
      variables: list of `ModelVariable`, in the order in which they were made.
      optimizer: `OptimizerState`, or None if the file has none.
      keys: list of str, all tensors of the file.
      read: function of an `Entry` that returns its value, a NumPy array.
      close: function that closes the file.
      architecture: function that returns the config of the model and what it was compiled
        with, two dicts, or None for what the file does not say.
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
