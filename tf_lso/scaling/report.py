"""Warn of what would silently spoil a training run."""

import sys

import numpy as np
import tensorflow as tf

from tf_lso import log, tf_private


def in_xla():
    """Return whether the code being traced is compiled by XLA (`jit_compile=True`)."""
    return not tf.executing_eagerly() and tf_private.in_xla(
        tf.compat.v1.get_default_graph()
    )


def _filled(text, values):
    """Return `text` with a value for each `{}`, a string tensor."""
    # `tf.strings.format` would put strings into quotes.
    values = [v if v.dtype == tf.string else tf.strings.format("{}", v) for v in values]
    first, *parts = text.split("{}")
    return tf.strings.join([first, *(x for pair in zip(values, parts) for x in pair)])


def first_of(*reports):
    """Report the first of `reports` whose condition holds when the step runs.

    Eager steps log a warning. Traced steps print to standard error, unless TensorFlow's
    logger hides warnings when they are traced. Steps compiled by XLA cannot print. Call
    this in a branch that is rarely taken.

    Args:
      *reports: tuples of a scalar bool tensor, the text with a `{}` for each value, and
        the values, scalar tensors.
    """
    if tf.executing_eagerly():
        for condition, text, *values in reports:
            if condition:
                log.logger().warning(
                    text.format(*[np.asarray(value)[()] for value in values])
                )
                return
    elif not in_xla() and log.warns():
        said = ""
        for condition, text, *values in reversed(reports):
            line = _filled(text + "\n", values)
            said = tf.where(condition, line, said)
        # Printing "" prints nothing. A conditional would take more memory per trace.
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
