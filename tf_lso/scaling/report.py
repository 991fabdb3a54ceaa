"""Tell the user, once, what silently spoils a training run."""

import sys

import tensorflow as tf
from absl import logging

# No public API tells whether the function being traced is compiled by XLA, in which
# printing is not possible. tests/scaling/test_report.py fails when this moves.
from tensorflow.python.ops import control_flow_util


def in_xla():
    """Return whether the code being traced is compiled by XLA (`jit_compile=True`)."""
    return not tf.executing_eagerly() and control_flow_util.GraphOrParentsInXlaContext(
        tf.compat.v1.get_default_graph()
    )


def when(condition, message, *values):
    """Report `message` in the running step if `condition` holds.

    Eager steps log a warning, traced ones print to standard error from within the
    graph, without a word of Python; inside XLA nothing can be printed.

    Args:
      condition: scalar bool tensor.
      message: text with a `{}` for each of `values`.
      *values: scalar tensors.
    """
    if tf.executing_eagerly():
        if condition:
            logging.warning(message.format(*[value.numpy() for value in values]))
    elif not in_xla():
        tf.cond(
            condition,
            lambda: tf.print(
                tf.strings.format(message, values), output_stream=sys.stderr
            ),
            tf.no_op,
        )


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
            logging.warning(message)
