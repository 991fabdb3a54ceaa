"""Log warnings with TensorFlow's logger."""

import logging


def logger() -> logging.Logger:
    """Import TensorFlow and return TensorFlow's logger."""
    import tensorflow as tf

    tensorflow_logger: logging.Logger = tf.get_logger()
    return tensorflow_logger


class Once:
    """Logs each warning at most once."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def has_logged(self, message: str) -> bool:
        return message in self._logged

    def warn(self, message: str | None) -> None:
        """Log `message` as a warning unless it is None or was logged before."""
        if message is not None and message not in self._logged:
            self._logged.add(message)
            logger().warning(message)
