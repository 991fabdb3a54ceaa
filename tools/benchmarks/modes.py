"""How a step runs: eagerly, traced, or compiled."""

import tensorflow as tf

_WRAPPERS = {
    "eager": lambda step: step,
    "function": tf.function,
    "xla": lambda step: tf.function(step, jit_compile=True),
}


def wrapped(mode, step):
    """`step` as the mode runs it."""
    return _WRAPPERS[mode](step)


def inside(mode, function):
    """A part of a step that the eager mode, too, runs as one traced function.

    In the other modes the step around it is traced already.
    """
    return tf.function(function) if mode == "eager" else function
