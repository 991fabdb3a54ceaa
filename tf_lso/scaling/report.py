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


def _filled_if(text, condition, *values):
    """Return `text` with a value for each `{}`, or "", as a list of a string tensor."""
    # `tf.strings.format` would put strings into quotes.
    values = [v if v.dtype == tf.string else tf.strings.format("{}", v) for v in values]
    first, *parts = text.split("{}")
    said = tf.strings.join([first, *(x for pair in zip(values, parts) for x in pair)])
    return [tf.where(condition, said, "")]


def warn_if(condition, text, *values):
    """Warn when a step runs in which `condition` holds.

    Eager steps log a warning. Traced steps print to standard error, unless TensorFlow's
    logger hides warnings when they are traced. Steps compiled by XLA cannot print. Call
    this in a branch that is rarely taken.

    Args:
      condition: scalar bool tensor.
      text: what to say, with a `{}` for each value.
      *values: scalar tensors.
    """
    if tf.executing_eagerly():
        if condition:
            values = [np.asarray(value)[()] for value in values]
            log.logger().warning(text.format(*values))
    elif not in_xla() and log.warns():
        # Printing "" prints nothing. A conditional would take more memory per trace.
        scalars = [condition, *values]
        [said] = shared.call(_filled_if, scalars, (text + "\n",), ((),) * len(scalars))
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
