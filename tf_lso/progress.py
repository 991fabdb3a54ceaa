"""The progress bar of the command line."""

import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def bar(items: Sequence[T], title: str, unit: str) -> Iterable[T]:
    """Return `items`, with a progress bar if a person may be waiting.

    There is no bar if tqdm is not installed or stderr is no terminal. It appears only after
    one second.
    """
    if not sys.stderr.isatty():
        return items
    try:
        import tqdm
    except ImportError:
        return items
    shown: Iterable[T] = tqdm.tqdm(items, title, unit=unit, leave=False, delay=1)
    return shown
