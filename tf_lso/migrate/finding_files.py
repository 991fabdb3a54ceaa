"""Find the files below the paths of a command."""

import os
from collections.abc import Callable, Iterable, Iterator

Failed = Callable[[str, Exception], None]
SUFFIXES = (".py", ".pyw", ".ipynb")
# Names of folders without code, or with code of other people.
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


def find(paths: Iterable[str], failed: Failed) -> list[str]:
    """Return the list of files below some paths.

    Each file is listed once. If both a file and links to this file are found, the
    name of the file itself is listed.

    Args:
      paths: files and folders.
      failed: function that is called with each path that cannot be read, and with the error.
    """
    found = [file for path in paths for file in _below(path, failed)]
    listed: dict[str, str] = {}
    for file in sorted(found, key=os.path.islink):
        listed.setdefault(os.path.realpath(file), file)
    return list(listed.values())


def _below(path: str, failed: Failed) -> Iterator[str]:
    """Yield a path to a file, or the Python files and notebooks below a path to a folder.

    Links to folders are not followed.
    """
    if not os.path.isdir(path):
        try:
            os.stat(path)
            yield path
        except (OSError, ValueError) as error:
            failed(path, error)
        return
    listing = os.walk(path, onerror=lambda error: failed(error.filename, error))
    for folder, folders, names in listing:
        folders[:] = [name for name in sorted(folders) if not _is_skipped(folder, name)]
        for file in (os.path.join(folder, name) for name in sorted(names)):
            # Reading a pipe would wait for its writer.
            if file.lower().endswith(SUFFIXES) and os.path.isfile(file):
                yield file


def _is_skipped(folder: str, name: str) -> bool:
    is_environment = os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
    return name.startswith(".") or name in _SKIPPED or is_environment
