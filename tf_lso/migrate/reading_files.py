"""Examine the files that a user passes to a command, and record the unreadable files."""

import dataclasses
import os
import re
import sys
from collections.abc import Iterable

from tf_lso.migrate import engine, notebooks
from tf_lso.migrate.engine import Options
from tf_lso.migrate.finding_files import find
from tf_lso.migrate.findings import Examined, Finding, Unreadable, unreadable

STDIN = "-"
_IMPORTING = "the program that imports"


@dataclasses.dataclass
class Outcome:
    """The results of a run of `check` or `migrate`."""

    options: Options = dataclasses.field(default_factory=Options)
    files: list[Examined] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)
    # Whether the command was told to write the migrated programs to the files.
    written: bool = False

    @property
    def findings(self) -> list[Finding]:
        return [found for file in self.files for found in file.findings]

    @property
    def left(self) -> list[Finding]:
        """The findings that `migrate` does not fix, so a person must decide."""
        return [found for found in self.findings if found.why_not]

    @property
    def changed(self) -> list[Examined]:
        """The results for files whose migrated program differs from the original program."""
        return [file for file in self.files if file.new != file.old]

    @property
    def exit_code(self) -> int:
        if self.unreadable:
            return 2
        return int(any(found.fails for found in self.findings))


def check(paths: Iterable[str], options: Options | None = None) -> Outcome:
    """Examine all programs in `paths` and return an `Outcome`.

    A path may be a file or a folder, or "-" for the standard input.

    Example:
    >>> from tf_lso.migrate import reading_files
    >>> reading_files.check(["no/such/file.py"]).exit_code
    2
    """
    outcome = Outcome(options or Options())

    def failed(path: str, error: Exception) -> None:
        outcome.unreadable.append(Unreadable(reason(error), path))

    paths = list(paths)
    listed = find([path for path in paths if path != STDIN], failed)
    listed += [path for path in paths if path == STDIN]
    for path in listed:
        file = examine(path, outcome.options)
        outcome.unreadable += file.unreadable
        if file.is_read:
            outcome.files.append(file)
    for file in outcome.files:
        file.entry = _program_in(outcome.files, file.entry)
    return outcome


def reason(error: BaseException) -> str:
    """Return the operating system's message if an error has one, else the text of the error."""
    return getattr(error, "strerror", None) or str(error)


def examine(path: str, options: Options) -> Examined:
    """Examine one file and return its result. Errors are recorded in the result, not raised."""
    file, entry = Examined(), _entry(path)
    try:
        data = file.old = file.new = _read(path)
        if path.lower().endswith(".ipynb"):
            file = notebooks.examine(data, options)
        else:
            file = engine.examine(data, options, may_install=not entry)
    except OSError as error:
        file.unreadable = [Unreadable(f"cannot be opened: {reason(error)}")]
    except engine.ERRORS as error:
        file.unreadable = [unreadable(error)]
    except Exception as error:
        # A defect of tf_lso in one file must not prevent the examination of other files.
        why = f"tf-lso failed on this file: {type(error).__name__}: {error}"
        file.unreadable = [Unreadable(why)]
    file.path, file.entry = path, entry
    for found in file.findings:
        found.file = path
    for item in file.unreadable:
        item.file = path
    return file


def _read(path: str) -> bytes:
    if path == STDIN:
        return sys.stdin.buffer.read()
    with open(path, "rb") as file:
        return file.read()


def _entry(path: str) -> str:
    """Return the program in which a person must call `install()`, or "".

    The result is "" outside of packages, where `migrate` can add the call to the file.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if path == STDIN or not os.path.exists(os.path.join(folder, "__init__.py")):
        return ""
    while os.path.exists(os.path.join(os.path.dirname(folder), "__init__.py")):
        folder = os.path.dirname(folder)
    if os.path.exists(os.path.join(folder, "__main__.py")):
        return f"{os.path.basename(folder)}/__main__.py"
    return f"{_IMPORTING} {os.path.basename(folder)}"


def _program_in(files: list[Examined], entry: str) -> str:
    """Return the paths of the programs that import a package, or `entry` if there are none."""
    if not entry.startswith(_IMPORTING):
        return entry
    package = re.escape(entry.removeprefix(_IMPORTING).strip())
    # In a notebook, a quotation mark stands before the line.
    imports = re.compile(rf'^[\s"]*(?:from|import)\s+{package}\b'.encode(), re.M)
    programs = [
        file.path for file in files if not file.entry and imports.search(file.old)
    ]
    return ", ".join(programs) or entry
