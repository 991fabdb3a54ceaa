"""Warn of what would silently spoil a training run."""

import sys

import tensorflow as tf

# No public API tells whether XLA compiles the function being traced. XLA cannot print.
# tests/scaling/test_report.py fails when this moves.
from tensorflow.python.ops import control_flow_util

from tf_lso import log


def in_xla():
    """Return whether the code being traced is compiled by XLA (`jit_compile=True`)."""
    return not tf.executing_eagerly() and control_flow_util.GraphOrParentsInXlaContext(
        tf.compat.v1.get_default_graph()
    )


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
                log.logger().warning(text.format(*[value.numpy() for value in values]))
                return
    elif not in_xla() and log.warns():
        said = ""
        for condition, text, *values in reversed(reports):
            line = tf.strings.format(text + "\n", values)
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
