"""Writes the files that change, each in one step, and shows the changes as diffs."""

import contextlib
import difflib
import os
import re
import shutil
from collections.abc import Iterable

from tf_lso.migrate.engine import Options
from tf_lso.migrate.files import STDIN, Outcome, check, decoded, reason
from tf_lso.migrate.findings import Examined, Unreadable


def migrate(
    paths: Iterable[str], options: Options | None = None, write: bool = False
) -> Outcome:
    """Return the same as `check`, and write the files that change if `write`."""
    outcome = check(paths, options, "migrate")
    outcome.written = write
    for file in outcome.changed:
        try:
            refused = "" if file.path == STDIN else _refused(file.path)
            if write and not refused and file.path != STDIN:
                _replace(file.path, file.old, file.new)
        except OSError as error:
            refused = f"cannot be written: {reason(error)}"
        if refused:
            file.new = file.old
            outcome.unreadable.append(Unreadable(file.path, refused))
    return outcome


def _refused(path: str) -> str:
    """Return why a file is not written, or ""."""
    if os.path.islink(path):
        return "is a link: migrate the file that it leads to"
    if not os.stat(path).st_mode & 0o222:
        return "is read-only; make it writable, and migrate again"
    return ""


def _replace(path: str, old: bytes, new: bytes) -> None:
    """Replace a file by new bytes in one step. Mode and owner stay."""
    folder = os.path.dirname(os.path.abspath(path))
    temporary = os.path.join(folder, f".tf-lso-{os.getpid()}")
    try:  # the name is known before the file is made: an interrupt leaves none behind
        with open(temporary, "xb") as file:
            os.chmod(temporary, 0o600)
            file.write(new)
        owner = os.stat(path)
        with contextlib.suppress(OSError):  # only root may do this
            os.chown(temporary, owner.st_uid, owner.st_gid)
        shutil.copymode(path, temporary)
        with open(path, "rb") as file:
            if file.read() != old:
                raise OSError("it was changed meanwhile")
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):  # it has the file's name now
            os.unlink(temporary)


def diff(file: Examined) -> str:
    """Return the unified diff of what becomes of a file, as `git apply` reads it."""
    name = file.path.replace(os.sep, "/").removeprefix("./").lstrip("/")
    old, new = _lines(file.old), _lines(file.new)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    )


def _lines(data: bytes) -> list[str]:
    try:
        text, encoding = decoded(data)
        text = "\ufeff" * (encoding == "utf-8-sig") + text
    except (SyntaxError, ValueError):
        text = data.decode("utf-8", "surrogateescape")
    return re.findall(r"[^\n]*\n|[^\n]+", text)
