"""Which files a path stands for: those of `tf-lso check` that git does not ignore."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable

from tf_lso.source import files

# Git sets these for its hooks. They may name another repository.
_OTHERS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_SOME, _NONE = 0, 1  # exit codes of `git check-ignore`: whether it ignores any


def find(path: str, failed: Callable[[str, Exception], None]) -> list[str]:
    """Return the files of a path, as `files.find` does, without what git ignores.

    Links to folders are not followed: what they lead to has another name.
    """
    found = list(files.find(path, failed, links=False))
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
