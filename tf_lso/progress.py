"""The progress bar of the command line."""

import sys
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def bar(
    items: Iterable[T], title: str, unit: str, total: int | None = None
) -> Iterable[T]:
    """Return `items`, with a progress bar if a person may be waiting.

    There is no bar if tqdm is not installed or stderr is no terminal. A bar appears only
    after one second.

    Args:
      items: iterable.
      title: str, the text before the bar.
      unit: str, what an item is called.
      total: int, the number of items; needed if `items` has no length.
    """
    if not sys.stderr.isatty():
        return items
    try:
        import tqdm
    except ImportError:
        return items
    shown: Iterable[T] = tqdm.tqdm(items, title, total, unit=unit, leave=False, delay=1)
    return shown
