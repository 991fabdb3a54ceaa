"""Which files a path stands for."""

import os
from collections.abc import Callable, Iterator

Failed = Callable[[str, Exception], None]
SUFFIXES = (".py", ".pyw", ".ipynb")
# Folders with no code, or with other people's.
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


def find(path: str, failed: Failed, links: bool = True) -> Iterator[str]:
    """Yield the files of a path, sorted: itself, or the Python files and notebooks in it.

    `failed` gets each path that is missing or cannot be listed, and the error. `links`
    says whether to follow links to folders within a folder.
    """
    try:
        if os.path.isdir(path):
            yield from _within(path, (os.path.realpath(path),), failed, links)
        else:
            os.stat(path)
            yield path
    except (OSError, ValueError) as error:
        failed(path, error)


def _within(
    folder: str, above: tuple[str, ...], failed: Failed, links: bool
) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        failed(folder, error)
        return
    for entry in found:
        try:
            is_dir = entry.is_dir(follow_symlinks=links)
            is_ours = not is_dir and _is_ours(entry)
        except OSError as error:  # such as a link to itself
            failed(entry.path, error)
            continue
        if is_dir:
            real = os.path.realpath(entry.path)
            if not _is_skipped(entry) and real not in above:
                yield from _within(entry.path, (*above, real), failed, links)
        elif is_ours:
            yield entry.path


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(SUFFIXES) and entry.is_file()


def _is_skipped(entry: os.DirEntry[str]) -> bool:
    return (
        entry.name.startswith(".")
        or entry.name in _SKIPPED
        or os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
    )
