"""What is measured: which gradients a step applies, or which model it trains."""

import math
import re
from typing import NamedTuple

from tools.benchmarks import shapes


class Gradient(NamedTuple):
    """One gradient tensor.

    Attributes:
      shape: That of the variable.
      rows: How many rows a `tf.IndexedSlices` touches, or None for a dense gradient.
    """

    shape: tuple[int, ...]
    rows: int | None = None

    @property
    def values(self):
        """How many numbers the gradient holds."""
        rows = self.shape[0] if self.rows is None else self.rows
        return rows * math.prod(self.shape[1:])


class Workload(NamedTuple):
    """A step to measure.

    Attributes:
      name: How it is called on the command line.
      title: How it is called in tables.
      gradients: Its gradients, in the order of its variables.
      repeats: How many steps are timed together, so that the clock is fine enough. A
        number fixed beforehand, since several workers must take the same steps.
      momentum: Of the inner SGD.
      trains: Whether a step computes a loss and its gradients too; otherwise it
        applies gradients that are there already.
    """

    name: str
    title: str
    gradients: tuple[Gradient, ...]
    repeats: int = 1
    momentum: float = 0.9
    trains: bool = False

    @property
    def values(self):
        return sum(gradient.values for gradient in self.gradients)

    @property
    def bytes(self):
        """The size of the gradients, in float32."""
        return 4 * self.values

    @property
    def variable_bytes(self):
        return sum(4 * math.prod(gradient.shape) for gradient in self.gradients)


def _dense(name, title, all_shapes, **kwargs):
    return Workload(
        name, title, tuple(Gradient(tuple(s)) for s in all_shapes), **kwargs
    )


_MLP = [(32, 64), (64,), (64, 10), (10,)]
# Layers of a small dense model, whose forward and backward pass a step contains.
_SMALL_MODEL = [(64, 128), (128,), (128, 128), (128,), (128, 10), (10,)]

_NAMED = (
    _dense("tiny", "tiny MLP", _MLP, repeats=20),
    _dense("small400", "400 small tensors", [(256,)] * 400, repeats=2),
    _dense("resnet50", "ResNet-50 shapes", shapes.resnet50()),
    _dense("bert", "BERT-base shapes", shapes.bert_base()),
    Workload(
        "embedding",
        "embedding 1M x 64, 64 rows",
        (Gradient((1_000_000, 64), rows=64),),
        # Momentum reads and writes the whole table in every step, which drowns what
        # loss scaling adds to 64 rows.
        momentum=0.0,
        repeats=10,
    ),
    _dense("model", "small model, whole steps", _SMALL_MODEL, repeats=10, trains=True),
)
WORKLOADS = {workload.name: workload for workload in _NAMED}

# For plots: more tensors of one size, and more bytes in one number of tensors.
SWEEP_ALONG = {
    "tensors": ("1x256", "10x256", "100x256", "1000x256"),
    "bytes": ("10x256", "10x4096", "10x65536", "10x1048576", "10x4194304"),
}
SWEEP = tuple(dict.fromkeys(name for names in SWEEP_ALONG.values() for name in names))
_SIZED = re.compile(r"([1-9]\d*)x([1-9]\d*)")


def get(name):
    """The workload of a name; `100x256` is 100 tensors of 256 values each.

    Raises:
      ValueError: if there is none.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    sized = _SIZED.fullmatch(name)
    if not sized:
        raise ValueError(
            f"there is no workload {name!r}; use one of {', '.join(WORKLOADS)}, or "
            "TENSORSxVALUES such as 100x256"
        )
    tensors, values = map(int, sized.groups())
    repeats = 5 if tensors * values < 100_000 else 1
    title = f"{values} values each"
    return _dense(name, title, [(values,)] * tensors, repeats=repeats)
