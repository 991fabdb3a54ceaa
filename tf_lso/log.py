"""Tell the user: by TensorFlow's logger, and on a terminal by a progress bar."""

import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def logger() -> logging.Logger:
    """Return TensorFlow's logger. This imports TensorFlow."""
    import tensorflow as tf

    found: logging.Logger = tf.get_logger()
    return found


class Once:
    """Logs each warning at most once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warn(self, message: str | None) -> None:
        """Log `message` as a warning unless it is None or was logged before."""
        if message is not None and message not in self._said:
            self._said.add(message)
            logger().warning(message)


def progress_bar(items: Sequence[_T], title: str, unit: str) -> Iterable[_T]:
    """Return `items`, after a second with a bar, if tqdm and a terminal are there."""
    try:
        import tqdm
    except ImportError:
        return items
    shown: Iterable[_T] = tqdm.tqdm(
        items, title, unit=unit, leave=False, delay=1, disable=None
    )
    return shown
