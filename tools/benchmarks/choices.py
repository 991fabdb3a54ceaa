"""What can be chosen: modes, strategies, families, candidates. No TensorFlow here."""

from typing import NamedTuple

MODES = {
    "eager": "Python runs each operation at once",
    "function": "one traced tf.function",
    "xla": "tf.function(jit_compile=True)",
}

FAMILIES = {
    "keras3": "keras.optimizers",
    "legacy": "tf_keras.optimizers.legacy",
    "new": "tf_keras.optimizers",
}

BARE, PEER, OURS, FLOOR = "bare", "peer", "tf_lso", "floor"
LEGACY_PROTOCOL, FIXED = "tf_lso legacy protocol", "tf_lso fixed"

CANDIDATES = {
    BARE: "the inner optimizer alone: what the others are compared with",
    PEER: "the LossScaleOptimizer of the family itself",
    OURS: "tf_lso, called as the peer is",
    LEGACY_PROTOCOL: "tf_lso around Keras 3, with get_unscaled_gradients",
    FIXED: "tf_lso with a fixed scale, which needs no check",
    FLOOR: "bare, and the cheapest check and rescaling of the same gradients",
}


class Strategy(NamedTuple):
    """How many logical CPU devices a process has, and how many processes there are."""

    devices: int
    processes: int


STRATEGIES = {
    "default": Strategy(1, 1),
    "mirrored2": Strategy(2, 1),
    "mirrored4": Strategy(4, 1),
    "multiworker2": Strategy(1, 2),
}


def candidates_of(family):
    """The names of the candidates that a family has, bare first."""
    # tf_keras's own optimizers know the legacy protocol only: there it is the peer's.
    return [
        name for name in CANDIDATES if name != LEGACY_PROTOCOL or family == "keras3"
    ]


def why_not(mode, strategy):
    """Why a mode cannot be measured under a strategy, or None."""
    if mode == "xla" and strategy != "default":
        return "TensorFlow does not compile steps of several logical CPU replicas"
    return None
