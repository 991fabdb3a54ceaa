"""Warn of what would silently spoil a training run."""

import sys

import numpy as np
import tensorflow as tf

from tf_lso import log, tf_private
from tf_lso.scaling.fast import shared


def in_xla():
    """Return whether the code being traced is compiled by XLA (`jit_compile=True`)."""
    return not tf.executing_eagerly() and tf_private.in_xla(
        tf.compat.v1.get_default_graph()
    )


def _text(text, reason, *tensors):
    """Return what `warn` says, or "" for nothing, as a list of a string tensor."""
    condition, *values = reason(*tensors)
    # `tf.strings.format` would put strings into quotes.
    values = [v if v.dtype == tf.string else tf.strings.format("{}", v) for v in values]
    first, *parts = text.split("{}")
    said = tf.strings.join([first, *(x for pair in zip(values, parts) for x in pair)])
    return [tf.where(condition, said, "")]


def warn(text, reason, tensors, shapes=None):
    """Warn when a step runs that has a reason to.

    Eager steps log a warning. Traced steps print to standard error, unless TensorFlow's
    logger hides warnings when they are traced. Steps compiled by XLA cannot print. Call
    this in a branch that is rarely taken.

    Args:
      text: what to say, with a `{}` for each value.
      reason: function of a module, without effects or variables, that takes the tensors
        and returns a list: whether to warn, a scalar bool, and a scalar for each value.
      tensors: list of tensors, in eager mode also of NumPy values.
      shapes: tuple of their shapes, see `shared.call`.
    """
    if tf.executing_eagerly():
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
        condition, *values = shared.call(reason, tensors, shapes=shapes)
        if condition:
            values = [tf.compat.as_str_any(np.asarray(value)[()]) for value in values]
            log.logger().warning(text.format(*values))
    elif not in_xla() and log.warns():
        # Printing "" prints nothing. A conditional would take more memory per trace.
        [said] = shared.call(_text, tensors, (text + "\n", reason), shapes)
        tf.print(said, output_stream=sys.stderr, end="")


class Once:
    """Logs each warning at most once."""

    def __init__(self):
        self._said = set()

    def warn(self, message):
        """Log `message` as a warning unless it is None or was logged before."""
        if message is not None and message not in self._said:
            self._said.add(message)
            log.logger().warning(message)
