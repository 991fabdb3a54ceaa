"""One file: read and looked through; and, if asked, put back in one step with its fixes."""

import contextlib
import dataclasses
import difflib
import os
import re
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator

from tf_lso.names.targets import TODAY, Target
from tf_lso.source import lookup, notebook_texts, notebooks, reading
from tf_lso.source.diagnose import diagnose, reparsed
from tf_lso.source.diagnostics import Diagnosis, Diagnostic
from tf_lso.source.packages import Package
from tf_lso.source.placement import Placement
from tf_lso.source.reading import Unreadable
from tf_lso.source.renaming import Options
from tf_lso.source.texts import decoded


@dataclasses.dataclass
class Examined:
    """What is found in one file, and what became of it.

    Attributes:
      path: the file.
      diagnostics: all that is found.
      unreadable: what cannot be read.
      diff: the unified diff, or "" where nothing changes.
      changes: number of places that change.
      installs: why `tf_lso.install()` was added.
      wraps: whether it then wraps optimizers by tf_lso.
      old: the bytes of the file.
      new: the bytes after the fixes.
    """

    path: str
    diagnostics: list[Diagnostic] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)
    diff: str = ""
    changes: int = 0
    installs: list[str] = dataclasses.field(default_factory=list)
    wraps: bool = False
    old: bytes = b""
    new: bytes = b""

    @property
    def left(self) -> list[Diagnostic]:
        """What is left to a person."""
        return [found for found in self.diagnostics if found.why_not]


def alone(path: str, reason: str) -> Examined:
    """Return that a file is left alone, and why."""
    return Examined(path, unreadable=[Unreadable(path, None, None, reason)])


def examine(
    path: str,
    options: Options,
    target: Target = TODAY,
    placement: Placement | None = None,
    writes: bool = True,
) -> Examined:
    """Return what is found in a file. One without a part of an old name is not parsed.

    With `writes` its bytes after the fixes are worked out too.
    """
    placement = placement or Placement()
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        return alone(path, f"cannot be opened: {reading.reason(error)}")
    if not (placement.reasons or lookup.may_have_old_names(data)):
        return Examined(path, old=data, new=data)
    try:
        found = _diagnosis(path, data, options, target, placement, writes)
    except reading.ERRORS as error:
        return Examined(path, unreadable=[reading.unreadable(path, error, data)])
    done = Examined(path, found.diagnostics, found.unreadable, wraps=found.wraps)
    done.old = done.new = data
    if found.texts:
        try:
            done.new = _written(path, data, found)
            reparsed(found, options, target, placement)
        except reading.ERRORS as error:
            done.new = data
            done.unreadable.append(reading.unreadable(path, error, data))
            return done
        done.changes, done.installs = found.changes, found.installs
    return done


def _diagnosis(
    path: str,
    data: bytes,
    options: Options,
    target: Target,
    placement: Placement,
    writes: bool,
) -> Diagnosis:
    is_notebook = path.lower().endswith(".ipynb")
    cells = notebooks.cells(data) if is_notebook else [(None, data)]
    keeps = is_notebook or os.path.basename(path) == "__init__.py"
    elsewhere = Package(path).bound
    return diagnose(cells, path, target, options, keeps, elsewhere, placement, writes)


def _written(path: str, data: bytes, found: Diagnosis) -> bytes:
    """Return the bytes of a file with its new texts."""
    if not path.lower().endswith(".ipynb"):
        _, encoding = decoded(data)
        return found.texts[None].encode(encoding)
    encoding = "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
    text = data.decode(encoding)
    new = notebook_texts.with_sources(text, found.texts).encode(encoding)
    sources: dict[int | None, str] = dict(notebooks.cells(new))
    if any(sources[number] != source for number, source in found.texts.items()):
        raise ValueError("its cells cannot be written back")
    return new


def regular(
    path: str, options: Options, target: Target, placement: Placement | None = None
) -> Examined:
    """Examine a file, but no pipe, which would wait for its writer."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        return alone(path, f"cannot be opened: {reading.reason(error)}")
    if not stat.S_ISREG(mode):
        return alone(path, "is no regular file")
    return examine(path, options, target, placement)


def fix(done: Examined, write: bool) -> Examined:
    """Return what becomes of a file, and write it with its fixes if asked to."""
    path = done.path
    if done.new == done.old:
        return done
    mode = os.stat(path).st_mode
    if os.path.islink(path):
        return alone(path, "is a link: migrate the file that it leads to")
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        return alone(path, "is read-only; make it writable, and migrate again")
    if write:
        try:
            with _without_interrupts():
                replace(path, done.old, done.new)
        except OSError as error:
            return alone(path, f"cannot be written: {reading.reason(error)}")
    done.diff = diff(path, done.old, done.new)
    return done


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let an interrupt wait, so that no temporary file stays."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
