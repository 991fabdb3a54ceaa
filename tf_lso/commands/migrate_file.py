"""One file: read, migrated, and put back in one step."""

import contextlib
import dataclasses
import difflib
import os
import re
import shutil
import stat
import tempfile

from tf_lso import names
from tf_lso.source import notebook_texts as notebooks
from tf_lso.source import notebooks as cells
from tf_lso.source import reading as sources
from tf_lso.source.reading import Unreadable
from tf_lso.source.reasons import Left
from tf_lso.source.renaming import Options
from tf_lso.source.rewrite import NoPython, Rewritten, rewrite
from tf_lso.source.texts import decoded

# A file that contains none of these has nothing to migrate, and is not parsed.
TOKENS = (
    b"mixed_precision",
    b"LossScale",
    b"loss_scale",
    *(name.encode() for name in names.SCALING),
)


@dataclasses.dataclass
class Migrated:
    """What became of one file.

    Attributes:
      path: the file.
      diff: the unified diff, or "" where nothing changes.
      changes: number of places that change.
      left: what is left as it is.
      installs: why `tf_lso.install()` was added.
      unreadable: why the file is left alone, or None.
    """

    path: str
    diff: str = ""
    changes: int = 0
    left: list[Left] = dataclasses.field(default_factory=list)
    installs: list[str] = dataclasses.field(default_factory=list)
    unreadable: Unreadable | None = None


def migrate(path: str, options: Options, write: bool, named: bool) -> Migrated:
    """Migrate one file. One that the user `named` is always parsed."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):  # a pipe would wait for its writer
            return alone(path, "is no regular file")
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        return alone(path, f"cannot be opened: {sources.reason(error)}")
    if not named and not any(token in data for token in TOKENS):
        return Migrated(path)
    try:
        new, outcome = _rewritten(path, data, options)
    except NoPython as error:
        return Migrated(path, unreadable=error.unreadable)
    except sources.ERRORS as error:
        return Migrated(path, unreadable=sources.unreadable(path, error, data))
    done = Migrated(path, left=outcome.left)
    if os.path.islink(path) and (new != data or named):
        return alone(path, "is a link: migrate the file that it leads to")
    if new == data:
        return done
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        return alone(path, "is read-only; make it writable, and migrate again")
    if write:
        try:
            replace(path, data, new)
        except OSError as error:
            return alone(path, f"cannot be written: {sources.reason(error)}")
    done.diff = diff(path, data, new)
    done.changes, done.installs = outcome.changes, outcome.installs
    return done


def alone(path: str, reason: str) -> Migrated:
    """Return that a file is left alone, and why."""
    return Migrated(path, unreadable=Unreadable(path, None, None, reason))


def _rewritten(path: str, data: bytes, options: Options) -> tuple[bytes, Rewritten]:
    if path.lower().endswith(".ipynb"):
        return _notebook(path, data, options)
    text, encoding = decoded(data)
    keeps = os.path.basename(path) == "__init__.py"
    outcome = rewrite({None: text}, options, keeps, path)
    new = outcome.texts.get(None, text)
    if new != text:
        _hold({None: new}, options)
    return new.encode(encoding), outcome


def _hold(texts: dict[int | None, str], options: Options) -> None:
    """Raise ValueError if a result does not parse, or would change again."""
    try:
        again = rewrite(texts, options, keeps_imports=True)
    except NoPython as error:
        raise ValueError(f"its migration {error}") from error
    if again.texts:
        raise ValueError("its migration would need a second one")


def _notebook(path: str, data: bytes, options: Options) -> tuple[bytes, Rewritten]:
    encoding = "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
    text = data.decode(encoding)
    outcome = rewrite(_sources(data), options, True, path)
    if not outcome.texts:
        return data, outcome
    new = notebooks.with_sources(text, outcome.texts).encode(encoding)
    found = _sources(new)
    if any(found[number] != source for number, source in outcome.texts.items()):
        raise ValueError("its cells cannot be written back")
    _hold(found, options)
    return new, outcome


def _sources(data: bytes) -> dict[int | None, str]:
    return dict(cells.cells(data))


def replace(path: str, old: bytes, new: bytes) -> None:
    """Replace a file by new bytes in one step. Mode and owner stay.

    Raises:
      OSError: if that cannot be done, or the file is no longer what it was.
    """
    folder = os.path.dirname(os.path.abspath(path))
    number, temporary = tempfile.mkstemp(prefix=".tf-lso-", dir=folder)
    try:
        with os.fdopen(number, "wb") as file:
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
    except BaseException:
        with contextlib.suppress(FileNotFoundError):  # it was moved already
            os.unlink(temporary)
        raise


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
