"""Find the Python files and notebooks in the paths that a user passes to a command."""

import os
from collections.abc import Callable, Iterable, Iterator

Failed = Callable[[str, Exception], None]
SUFFIXES = (".py", ".pyw", ".ipynb")
# Folders with these names contain compiled code or other projects.
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


def find(paths: Iterable[str], failed: Failed) -> list[str]:
    """Return the files in `paths` and the programs in the folders in `paths`, each once.

    If a file has several paths, one that is not a link is preferred. `failed` is called with
    (path, error) for each path that cannot be read.
    """
    found = [file for path in paths for file in _below(path, failed)]
    listed: dict[str, str] = {}
    for file in sorted(found, key=os.path.islink):
        listed.setdefault(os.path.realpath(file), file)
    return list(listed.values())


def _below(path: str, failed: Failed) -> Iterator[str]:
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
            # Skip pipes, whatever their names, because reading a pipe waits for its writer.
            if file.lower().endswith(SUFFIXES) and os.path.isfile(file):
                yield file


def _is_skipped(folder: str, name: str) -> bool:
    is_environment = os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
    return name.startswith(".") or name in _SKIPPED or is_environment
