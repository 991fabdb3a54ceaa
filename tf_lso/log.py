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


class Once:
    """Logs each warning at most once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warn(self, message: str | None) -> None:
        """Log `message` as a warning unless it is None or was logged before."""
        if message is not None and message not in self._said:
            self._said.add(message)
            logger().warning(message)
