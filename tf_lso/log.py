"""Log by TensorFlow's logger, so that `tf.get_logger().setLevel(...)` works."""

import logging


def logger() -> logging.Logger:
    """Return TensorFlow's logger. This imports TensorFlow."""
    import tensorflow as tf

    found: logging.Logger = tf.get_logger()
    return found


def warns() -> bool:
    """Whether the logger shows warnings."""
    return logger().isEnabledFor(logging.WARNING)
