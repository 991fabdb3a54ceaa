"""Tell the user, once, what silently spoils a training run."""

import sys

import tensorflow as tf

# No public API tells whether the function being traced is compiled by XLA, in which
# printing is not possible. tests/scaling/test_report.py fails when this moves.
from tensorflow.python.ops import control_flow_util

from tf_lso import log


def in_xla():
    """Return whether the code being traced is compiled by XLA (`jit_compile=True`)."""
    return not tf.executing_eagerly() and control_flow_util.GraphOrParentsInXlaContext(
        tf.compat.v1.get_default_graph()
    )


def first_of(*reports):
    """Report in the running step the first of `reports` whose condition holds.

    Eager steps log a warning, traced ones print to standard error from within the
    graph, without a word of Python, unless the level of TensorFlow's logger is above
    warnings when they are traced; inside XLA nothing can be printed. Meant for a branch
    that is seldom taken.

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
        # Nothing is printed of "". A conditional would take more memory in each trace.
        tf.print(said, output_stream=sys.stderr, end="")


class Once:
    """Warnings that an object logs at most once each.

    Copies of it start afresh.
    """

    def __init__(self):
        self._said = set()

    def warn(self, message):
        """Log `message` as a warning unless it is None or was logged before."""
        if message is not None and message not in self._said:
            self._said.add(message)
            log.logger().warning(message)
