"""Looks through files and, if asked, replaces them by what their fixes make of them."""

import contextlib
import dataclasses
import difflib
import os
import re
import shutil
from collections.abc import Iterable

from tf_lso import log
from tf_lso.names import targets
from tf_lso.names.targets import TODAY, Target
from tf_lso.source import files, lookup, notebooks, reading
from tf_lso.source.diagnose import diagnose
from tf_lso.source.diagnostics import Diagnosis, Diagnostic, Unreadable
from tf_lso.source.modules import Placement, bound_elsewhere, placed
from tf_lso.source.renaming import Options


@dataclasses.dataclass
class Outcome:
    """All that one run has found on a TensorFlow, and done.

    Attributes:
      target: the TensorFlow.
      written: whether the fixes were written.
      files: what became of each file looked at.
      unreadable: what could not be read, or was left alone, and why.
    """

    target: Target = TODAY
    written: bool = False
    files: list[Diagnosis] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)

    @property
    def findings(self) -> list[Diagnostic]:
        """What `check` tells of."""
        return [one for file in self.files for one in file.diagnostics if one.seen]

    @property
    def left(self) -> list[Diagnostic]:
        """What `migrate` leaves to a person."""
        return [one for file in self.files for one in file.left]

    @property
    def changed(self) -> list[Diagnosis]:
        """The files that change."""
        return [file for file in self.files if file.new != file.old]

    @property
    def exit_code(self) -> int:
        """2 when something could not be read, else 1 when something breaks, else 0."""
        if self.unreadable:
            return 2
        return int(any(finding.fails for finding in self.findings))


def check(
    paths: Iterable[str],
    target: Target = TODAY,
    options: Options | None = None,
    command: str = "check",
) -> Outcome:
    """Return what is found in files and folders.

    Args:
      paths: files and folders.
      target: the TensorFlow that they are to run on, by default what those with Keras 3
        have in common.
      options: the `Options`.
      command: which command asks.

    Example:
    >>> from tf_lso.commands import programs
    >>> programs.check(["no/such/file.py"]).exit_code
    2
    """
    options = options or Options()
    if options.like:
        target = targets.like(options.like, target)
    outcome = Outcome(target)

    def failed(path: str, error: Exception) -> None:
        outcome.unreadable.append(Unreadable(path, _reason(error)))

    listed = files.find(paths, failed)
    if command == "migrate":  # a pipe would wait for its writer
        for path in [path for path in listed if not os.path.isfile(path)]:
            listed.remove(path)
            failed(path, OSError("is no regular file"))
    shown = log.progress_bar(listed, f"tf-lso {command}", "file")
    found = {path: examine(path, options, target) for path in shown}
    if any(one.wraps for one in found.values()):
        for path, one in found.items():
            if not one.wraps and one.diagnostics:
                found[path] = examine(path, options, target, Placement(wraps=True))
    needing = {path: one.installs for path, one in found.items() if one.installs}
    for path, placement in placed(listed, needing).items():
        found[path] = examine(path, options, target, placement)
    outcome.files = list(found.values())
    outcome.unreadable += [item for one in outcome.files for item in one.unreadable]
    return outcome


def _reason(error: BaseException) -> str:
    """Return what the operating system says about a path, or else the error."""
    return getattr(error, "strerror", None) or str(error)


def examine(
    path: str,
    options: Options,
    target: Target = TODAY,
    placement: Placement | None = None,
) -> Diagnosis:
    """Return what is found in a file. One without a part of an old name is not parsed."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        needed = placement and placement.reasons
        if not (needed or lookup.may_have_old_names(data)):
            return Diagnosis(path)
        notebook = path.lower().endswith(".ipynb")
        cells = notebooks.cells(data) if notebook else [(None, data)]
        done = diagnose(cells, path, target, options, bound_elsewhere(path), placement)
        done.old = done.new = data
        if done.texts:
            done.new = (notebooks if notebook else reading).encoded(data, done.texts)
        return done
    except OSError as error:
        failed = Unreadable(path, f"cannot be opened: {_reason(error)}")
    except reading.ERRORS as error:
        failed = reading.unreadable(path, error)
    except Exception as error:  # a defect of ours must not stop the other files
        failed = Unreadable(
            path, f"tf-lso fails on it: {type(error).__name__}: {error}"
        )
    return Diagnosis(path, unreadable=[failed])


def migrate(
    paths: Iterable[str],
    options: Options | None = None,
    write: bool = False,
    target: Target = TODAY,
) -> Outcome:
    """Return the same as `check`, and what becomes of the files, written with `write`.

    The target does not change what is written.
    """
    outcome = check(paths, target, options, "migrate")
    outcome.written = write
    for file in outcome.changed:
        try:
            refused = ""
            if os.path.islink(file.path):
                refused = "is a link: migrate the file that it leads to"
            elif not os.stat(file.path).st_mode & 0o222:
                refused = "is read-only; make it writable, and migrate again"
            elif write:
                _replace(file.path, file.old, file.new)
        except OSError as error:
            refused = f"cannot be written: {_reason(error)}"
        if refused:
            file.new = file.old
            outcome.unreadable.append(Unreadable(file.path, refused))
    return outcome


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


def diff(file: Diagnosis) -> str:
    """Return the unified diff of what becomes of a file, as `git apply` takes it."""
    name = file.path.replace(os.sep, "/").removeprefix("./").lstrip("/")
    old, new = _lines(file.old), _lines(file.new)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    )


def _lines(data: bytes) -> list[str]:
    try:
        text, _ = reading.decoded(data)
    except (SyntaxError, ValueError):
        text = data.decode("utf-8", "surrogateescape")
    return re.findall(r"[^\n]*\n|[^\n]+", text)
