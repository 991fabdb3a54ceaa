"""One file: looked through and, if asked, replaced in one step by what its fixes make."""

import contextlib
import difflib
import os
import re
import shutil
import stat

from tf_lso.names.targets import TODAY, Target
from tf_lso.source import files, lookup, notebooks, reading
from tf_lso.source.diagnose import diagnose, reparsed
from tf_lso.source.diagnostics import Diagnosis
from tf_lso.source.files import Unreadable
from tf_lso.source.modules import Placement, bound_elsewhere
from tf_lso.source.renaming import Options
from tf_lso.source.texts import decoded


def alone(path: str, reason: str) -> Diagnosis:
    """Return that a file is left alone, and why."""
    return Diagnosis(path, unreadable=[Unreadable(path, None, None, reason)])


def examine(
    path: str,
    options: Options,
    target: Target = TODAY,
    placement: Placement | None = None,
    writes: bool = True,
) -> Diagnosis:
    """Return what is found in a file. One without a part of an old name is not parsed.

    With `writes` its bytes after the fixes are worked out too.
    """
    placement = placement or Placement()
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        return alone(path, f"cannot be opened: {files.reason(error)}")
    if not (placement.reasons or lookup.may_have_old_names(data)):
        return Diagnosis(path)
    notebook = path.lower().endswith(".ipynb")
    elsewhere = bound_elsewhere(path)
    try:
        cells = notebooks.cells(data) if notebook else [(None, data)]
        done = diagnose(cells, path, target, options, elsewhere, placement, writes)
        done.old = done.new = data
        if done.texts:
            done.new = _written(data, done, notebook)
            reparsed(done, options, target, placement)
    except reading.ERRORS as error:
        return Diagnosis(path, unreadable=[reading.unreadable(path, error)])
    return done


def _written(data: bytes, done: Diagnosis, notebook: bool) -> bytes:
    """Return the bytes of a file with its new texts."""
    if not notebook:
        _, encoding = decoded(data)
        return done.texts[None].encode(encoding)
    encoding = "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
    new = notebooks.with_sources(data.decode(encoding), done.texts).encode(encoding)
    sources = dict(notebooks.cells(new))
    if any(
        sources[number] != source for number, source in done.texts.items() if number
    ):
        raise ValueError("its cells cannot be written back")
    return new


def fix(done: Diagnosis, write: bool) -> Diagnosis:
    """Return what becomes of a file, and write it with its fixes if asked to."""
    path = done.path
    if done.new == done.old:
        return done
    try:
        mode = os.stat(path).st_mode
        if os.path.islink(path):
            return alone(path, "is a link: migrate the file that it leads to")
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            return alone(path, "is read-only; make it writable, and migrate again")
        if write:
            replace(path, done.old, done.new)
    except OSError as error:
        return alone(path, f"cannot be written: {files.reason(error)}")
    done.diff = diff(path, done.old, done.new)
    return done


def replace(path: str, old: bytes, new: bytes) -> None:
    """Replace a file by new bytes in one step. Mode and owner stay.

    Raises:
      OSError: if that cannot be done, or the file is no longer what it was.
    """
    folder = os.path.dirname(os.path.abspath(path))
    temporary = os.path.join(folder, f".tf-lso-{os.getpid()}")
    try:  # the name is known before the file is made: an interrupt leaves none behind
        with open(temporary, "xb", opener=_for_us_only) as file:
            file.write(new)
        owner = os.stat(path)
        with contextlib.suppress(OSError):  # only root may do this
            os.chown(temporary, owner.st_uid, owner.st_gid)
        shutil.copystat(path, temporary)
        os.utime(temporary)
        with open(path, "rb") as file:
            if file.read() != old:
                raise OSError("it was changed meanwhile")
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):  # it has the file's name now
            os.unlink(temporary)


def _for_us_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def diff(path: str, old: bytes, new: bytes) -> str:
    """Return the unified diff of two versions of a file, as `git apply` takes it."""
    before, after = (_lines(data) for data in (old, new))
    name = path.replace(os.sep, "/").removeprefix("./")
    if os.path.isabs(path):
        name = name.lstrip("/")
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    marked = (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in lines
    )
    return "".join(marked)


def _lines(data: bytes) -> list[str]:
    try:
        text, _ = decoded(data)
    except (SyntaxError, ValueError):
        text = data.decode("utf-8", "surrogateescape")
    return re.findall(r"[^\n]*\n|[^\n]+", text)
