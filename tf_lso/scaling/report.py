"""Warn of what would silently spoil a training run."""

import sys

import numpy as np
import tensorflow as tf

from tf_lso import log
from tf_lso.scaling import fast


def warn(condition, text, *values):
    """Warn when a step runs for which `condition` holds, in a branch that rarely runs.

    Eager steps log a warning: `text` with a scalar tensor or NumPy value for each `{}`.
    Traced steps print to standard error, unless TensorFlow's logger hides warnings when
    they are traced. Steps compiled by XLA cannot print.
    """
    if tf.executing_eagerly():
        if condition:
            values = [tf.compat.as_str_any(np.asarray(value)[()]) for value in values]
            log.logger().warning(text.format(*values))
    elif not fast.in_xla() and log.warns():
        # `tf.strings.format` would put strings into quotes.
        told = [
            v if v.dtype == tf.string else tf.strings.format("{}", v) for v in values
        ]
        first, *parts = f"{text}\n".split("{}")
        said = tf.strings.join([first, *(x for pair in zip(told, parts) for x in pair)])
        # Printing "" prints nothing. A conditional would take more memory per trace.
        tf.print(tf.where(condition, said, ""), output_stream=sys.stderr, end="")
