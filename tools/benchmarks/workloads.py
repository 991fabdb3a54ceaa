"""What is measured: which gradients a step applies, or which model it trains."""

import math
import re
from typing import NamedTuple


class Workload(NamedTuple):
    """A step to measure: the gradients it applies, or the model it trains."""

    title: str  # in tables
    shapes: list[tuple[int, ...]]  # of its variables, and of their gradients
    # How many steps are timed together, so that the clock is fine enough. Fixed
    # beforehand, since several workers must take the same steps.
    repeats: int = 1
    momentum: float = 0.9  # of the inner SGD
    rows: int | None = None  # that gradients touch as `tf.IndexedSlices`; None if dense
    trains: bool = False  # whether the step computes the loss and its gradients too

    @property
    def gradients(self):
        """The shapes of the gradients, or of the values of their slices."""
        return [(self.rows or size, *others) for size, *others in self.shapes]

    @property
    def values(self):
        """How many numbers the gradients hold."""
        return sum(map(math.prod, self.gradients))


def _resnet50(classes=1000):
    """The 161 variables of ResNet-50: kernels, gammas and betas, and the classifier."""

    def convolution(size, inputs, outputs):
        return [(size, size, inputs, outputs), (outputs,), (outputs,)]

    shapes, inputs = convolution(7, 3, 64), 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            if block == 0:  # the shortcut changes the number of channels
                shapes += convolution(1, inputs, 4 * width)
            shapes += convolution(1, inputs, width) + convolution(3, width, width)
            shapes += convolution(1, width, 4 * width)
            inputs = 4 * width
    return [*shapes, (inputs, classes), (classes,)]


def _bert_base(layers=12, width=768, vocabulary=30522, positions=512):
    """The 199 variables of BERT-base: embeddings, encoder layers, pooler."""
    dense, norm = [(width, width), (width,)], [(width,), (width,)]
    shapes = [(vocabulary, width), (positions, width), (2, width), *norm]
    for _ in range(layers):
        shapes += [*dense * 4, *norm]  # query, key, value, output
        shapes += [(width, 4 * width), (4 * width,), (4 * width, width), (width,)]
        shapes += norm
    return [*shapes, *dense]


_SMALL_MODEL = [(64, 128), (128,), (128, 128), (128,), (128, 10), (10,)]

WORKLOADS = {
    "tiny": Workload("tiny MLP", [(32, 64), (64,), (64, 10), (10,)], 20),
    "small400": Workload("400 small tensors", [(256,)] * 400, 2),
    "resnet50": Workload("ResNet-50 shapes", _resnet50()),
    "bert": Workload("BERT-base shapes", _bert_base()),
    # Momentum reads and writes the whole table in every step, which drowns what loss
    # scaling adds to 64 rows.
    "embedding": Workload(
        "embedding 1M x 64, 64 rows", [(1_000_000, 64)], 10, momentum=0.0, rows=64
    ),
    "model": Workload("small model, whole steps", _SMALL_MODEL, 10, trains=True),
}


def get(name):
    """The workload of a name; `100x256` is 100 tensors of 256 values each."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    sized = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", name)
    if not sized:
        known = ", ".join(WORKLOADS)
        raise ValueError(f"no workload {name!r}: use {known}, or a size as 100x256")
    tensors, values = map(int, sized.groups())
    repeats = 5 if tensors * values < 100_000 else 1
    return Workload(f"{values} values each", [(values,)] * tensors, repeats)
