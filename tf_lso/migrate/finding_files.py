"""Which files a path stands for."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator

Failed = Callable[[str, Exception], None]
SUFFIXES = (".py", ".pyw", ".ipynb")
# Folders with no code, or with other people's.
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


def find(paths: Iterable[str], failed: Failed) -> list[str]:
    """Return the files of some paths, each once, by its own name and not by a link's.

    `failed` gets each path that is missing or cannot be listed, and the error.
    """
    found = [file for path in paths for file in _below(path, failed)]
    listed: dict[str, str] = {}
    for file in sorted(found, key=os.path.islink):
        listed.setdefault(os.path.realpath(file), file)
    return list(listed.values())


def _below(path: str, failed: Failed) -> Iterator[str]:
    """Yield a file, or the Python files and notebooks in a folder.

    Links to folders are not followed: what they lead to has another name.
    """
    if not os.path.isdir(path):
        try:
            os.stat(path)
            yield path
        except (OSError, ValueError) as error:
            failed(path, error)
        return
    ignored = _ignored(path)
    listing = os.walk(path, onerror=lambda error: failed(error.filename, error))
    for folder, folders, names in listing:
        if folder != path and ".git" in (*folders, *names):
            ignored |= _ignored(folder)
        wanted = (name for name in sorted(folders) if not _is_skipped(folder, name))
        folders[:] = (n for n in wanted if os.path.join(folder, n) not in ignored)
        for file in (os.path.join(folder, name) for name in sorted(names)):
            if file.lower().endswith(SUFFIXES) and file not in ignored:
                if os.path.isfile(file):  # a pipe would wait for its writer
                    yield file


def _is_skipped(folder: str, name: str) -> bool:
    is_environment = os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
    return name.startswith(".") or name in _SKIPPED or is_environment


def _ignored(folder: str) -> set[str]:
    """Return the files and folders that git ignores in a folder."""
    # Git sets variables for its hooks, which may name another repository.
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    clean["LC_ALL"] = "C"
    command = ["git", "-C", folder, "ls-files", "-oiz", "--exclude-standard"]
    try:
        done = subprocess.run([*command, "--directory"], capture_output=True, env=clean)
    except OSError:  # no git
        return set()
    if done.returncode and b"not a git repository" not in done.stderr:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        why = f"since git does not say what it ignores: {said}"
        print(f"tf-lso: nothing is left out in {folder}, {why}", file=sys.stderr)
    names = map(os.fsdecode, done.stdout.split(b"\0"))
    return {os.path.join(folder, name).rstrip("/") for name in names if name}
