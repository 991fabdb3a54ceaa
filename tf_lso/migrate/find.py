"""Which files a path stands for: those of `tf-lso check` that git does not ignore."""

import os
import subprocess
import sys
from collections.abc import Callable

from tf_lso.programs import files

# Git sets these for its hooks. They may name another repository.
_OTHERS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_SOME, _NONE = 0, 1  # exit codes of `git check-ignore`: whether it ignores any


def find(path: str, failed: Callable[[str, Exception], None]) -> list[str]:
    """Return the files of a path: itself, or the Python files and notebooks in it.

    Links to directories are not followed: what they lead to has another name.

    Args:
      path: a file with any name, or a directory.
      failed: called with each path that is missing or cannot be listed, and the error.
    """
    found = list(files.find(path, failed, links=False))
    if not os.path.isdir(path):
        return found
    repositories: dict[str, list[str]] = {}
    known: dict[str, str] = {}
    for file in found:
        folder = os.path.dirname(os.path.abspath(file))
        repositories.setdefault(_repository(folder, known), []).append(file)
    ignored = set()
    for repository, inside in repositories.items():
        if repository:
            ignored |= _ignored(repository, inside)
    return [file for file in found if file not in ignored]


def _repository(folder: str, known: dict[str, str]) -> str:
    """Return the git work tree that a folder is in, or ""."""
    if folder not in known:
        above = os.path.dirname(folder)
        if os.path.exists(os.path.join(folder, ".git")):
            known[folder] = folder
        else:
            known[folder] = _repository(above, known) if above != folder else ""
    return known[folder]


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
