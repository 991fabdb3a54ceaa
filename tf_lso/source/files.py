"""Which files a path stands for, and why one of them cannot be read."""

import dataclasses
import functools
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator

Failed = Callable[[str, Exception], None]
SUFFIXES = (".py", ".pyw", ".ipynb")
# Folders with no code, or with other people's.
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


def find(path: str, failed: Failed, links: bool = True) -> Iterator[str]:
    """Yield the files of a path: itself, or the Python files and notebooks in it.

    `failed` gets each path that is missing or cannot be listed, and the error. `links`
    says whether to follow links to folders within a folder, after all others.
    """
    if not os.path.isdir(path):
        try:
            os.stat(path)
            yield path
        except (OSError, ValueError) as error:
            failed(path, error)
        return
    todo, seen = [path], set()
    for start in todo:  # which grows by links
        for folder, folders, names in os.walk(
            start, onerror=lambda error: failed(error.filename, error)
        ):
            if (real := os.path.realpath(folder)) in seen:
                folders.clear()
                continue
            seen.add(real)
            below = [os.path.join(folder, name) for name in sorted(folders)]
            below = [one for one in below if not _is_skipped(one)]
            todo += [one for one in below if os.path.islink(one) and links]
            folders[:] = [os.path.basename(one) for one in below if one not in todo]
            for name in sorted(names):
                file = os.path.join(folder, name)
                if name.lower().endswith(SUFFIXES) and _is_file(file, failed):
                    yield file


def _is_skipped(folder: str) -> bool:
    name = os.path.basename(folder)
    is_environment = os.path.exists(os.path.join(folder, "pyvenv.cfg"))
    return name.startswith(".") or name in _SKIPPED or is_environment


def _is_file(path: str, failed: Failed) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False
    except OSError as error:  # such as a link to itself
        failed(path, error)
        return False


@dataclasses.dataclass(frozen=True)
class Unreadable:
    """A file or cell that could not be read, and why."""

    file: str
    cell: int | None
    line: int | None
    reason: str


def reason(error: BaseException) -> str:
    """Return what the operating system says about a path, or else the error."""
    return getattr(error, "strerror", None) or str(error)


# --- What git ignores.

# Git sets these for its hooks. They may name another repository.
_OTHERS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_SOME, _NONE = 0, 1  # exit codes of `git check-ignore`: whether it ignores any


def wanted(path: str, failed: Failed) -> list[str]:
    """Return the files of a path, as `find` does, without what git ignores.

    Links to folders are not followed: what they lead to has another name.
    """
    found = list(find(path, failed, links=False))
    if not os.path.isdir(path):
        return found

    @functools.cache
    def repository(folder: str) -> str:
        """Return the git work tree that a folder is in, or ""."""
        above = os.path.dirname(folder)
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        return repository(above) if above != folder else ""

    inside: dict[str, list[str]] = {}
    for file in found:
        of = repository(os.path.dirname(os.path.abspath(file)))
        inside.setdefault(of, []).append(file)
    inside.pop("", None)
    ignored = set().union(*(_ignored(*item) for item in inside.items()))
    return [file for file in found if file not in ignored]


def _ignored(repository: str, paths: list[str]) -> set[str]:
    """Return the paths that git ignores, or none if git does not say."""
    real = {os.path.relpath(os.path.abspath(path), repository): path for path in paths}
    try:
        done = subprocess.run(
            ["git", "-C", repository, "check-ignore", "-z", "--stdin"],
            input=b"".join(os.fsencode(path) + b"\0" for path in real),
            capture_output=True,
            check=False,
            env={k: v for k, v in os.environ.items() if k not in _OTHERS},
        )
    except OSError:  # no git
        return set()
    if done.returncode not in (_SOME, _NONE):
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        print(
            f"tf-lso migrate: nothing is left out in {repository}, since git does not "
            f"say what it ignores: {said}",
            file=sys.stderr,
        )
    return {real[os.fsdecode(path)] for path in done.stdout.split(b"\0") if path}
