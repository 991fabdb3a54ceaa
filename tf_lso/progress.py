"""The progress bar of the command line."""

import sys


def bar(items, title, unit, total=None):
    """Return `items` under a progress bar, where somebody may be waiting for them.

    There is none where tqdm is not installed, where stderr is no terminal, and in the
    first second.

    Args:
      items: iterable.
      title: str, what stands before the bar.
      unit: str, what an item is called.
      total: int, how many there are, where `items` has no length.
    """
    if not sys.stderr.isatty():
        return items
    try:
        import tqdm
    except ImportError:
        return items
    return tqdm.tqdm(items, title, total, unit=unit, leave=False, delay=1)
