"""The choices of `tools/benchmark`, for use without TensorFlow."""

from typing import NamedTuple

# Maps a name in commands to the name in plots.
MODES = {"eager": "in eager mode", "function": "in a tf.function", "xla": "under XLA"}
STRATEGIES = {"default": "one device", "mirrored2": "two replicas"}
FAMILIES = {
    "keras3": "Keras 3",
    "keras3-legacy-calls": "Keras 3\nold calls",
    "legacy": "tf_keras\nlegacy",
    "new": "tf_keras\nnewer",
}
# A step without loss scaling, a step with the framework's own wrapper, and a step with tf_lso.
CANDIDATES = BARE, OWN, OURS = "bare", "own", "tf_lso"


class Setting(NamedTuple):
    """The names that determine what one process measures."""

    mode: str
    strategy: str
    family: str
    workload: str


class Workload(NamedTuple):
    """The gradients that a step applies, or the model that it trains."""

    title: str  # the name in tables
    shapes: list[tuple[int, ...]]  # the shapes of the variables
    repeats: int = 1  # the number of steps that are timed together
    momentum: float = 0.9  # the momentum of the inner SGD
    # The number of rows of each gradient if the gradients are `tf.IndexedSlices`, or None if
    # the gradients are dense.
    rows: int | None = None
    trains: bool = False  # whether the step also computes the loss and its gradients


def _resnet50():
    """Return the shapes of the 161 variables of ResNet-50."""

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
    return [*shapes, (inputs, 1000), (1000,)]


def _bert_base(width=768):
    """Return the shapes of the 199 variables of BERT-base."""
    dense, norm = [(width, width), (width,)], [(width,), (width,)]
    widened = [(width, 4 * width), (4 * width,), (4 * width, width), (width,)]
    # The four dense layers are query, key, value and output.
    layer = [*dense * 4, *norm, *widened, *norm]
    return [(30522, width), (512, width), (2, width), *norm, *layer * 12, *dense]


_SMALL_MODEL = [(64, 128), (128,), (128, 128), (128,), (128, 10), (10,)]
WORKLOADS = {
    "tiny": Workload("tiny MLP", [(32, 64), (64,), (64, 10), (10,)], 20),
    "small400": Workload("400 small tensors", [(256,)] * 400, 2),
    "resnet50": Workload("ResNet-50 shapes", _resnet50()),
    "bert": Workload("BERT-base shapes", _bert_base()),
    # Momentum would read and write the whole table, which takes far longer than loss scaling.
    "embedding": Workload(
        "embedding 1M x 64, 64 rows", [(1_000_000, 64)], 10, momentum=0.0, rows=64
    ),
    "model": Workload("small model, whole steps", _SMALL_MODEL, 10, trains=True),
}
