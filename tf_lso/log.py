"""Warnings through TensorFlow's logger, and progress bars on a terminal."""

import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def logger() -> logging.Logger:
    """Return TensorFlow's logger. This imports TensorFlow."""
    import tensorflow as tf

    tensorflow_logger: logging.Logger = tf.get_logger()
    return tensorflow_logger


class Once:
    """Logs each warning at most once."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def warn(self, message: str | None) -> None:
        """Log `message` as a warning unless it is None or was logged before."""
        if message is not None and message not in self._logged:
            self._logged.add(message)
            logger().warning(message)


def progress_bar(items: Sequence[_T], title: str, unit: str) -> Iterable[_T]:
    """Return `items`, which show a progress bar if iterating takes more than a second.

    There is a bar only if tqdm is installed and stderr is a terminal.
    """
    try:
        import tqdm
    except ImportError:
        return items
    with_bar: Iterable[_T] = tqdm.tqdm(
        items, title, unit=unit, leave=False, delay=1, disable=None
    )
    return with_bar
