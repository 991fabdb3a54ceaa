"""Log where TensorFlow does, so that `tf.get_logger().setLevel(...)` is obeyed."""

import logging


def logger():
    """Return TensorFlow's logger, which imports TensorFlow if nobody has."""
    import tensorflow as tf

    return tf.get_logger()


def warns() -> bool:
    """Whether a warning would be seen."""
    return logger().isEnabledFor(logging.WARNING)
