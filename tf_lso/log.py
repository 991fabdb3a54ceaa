"""Log by TensorFlow's logger, so that `tf.get_logger().setLevel(...)` works."""

import logging


def logger():
    """Return TensorFlow's logger. This imports TensorFlow."""
    import tensorflow as tf

    return tf.get_logger()


def warns() -> bool:
    """Whether the logger shows warnings."""
    return logger().isEnabledFor(logging.WARNING)
