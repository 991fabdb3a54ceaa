"""Reads the files of a run, and says why one cannot be read."""

import contextlib
import dataclasses
import functools
import io
import json
import os
import re
import sys
import tokenize
from collections.abc import Iterable

from tf_lso import log
from tf_lso.migrate import engine, notebooks
from tf_lso.migrate.engine import Options
from tf_lso.migrate.finding_files import SUFFIXES, find
from tf_lso.migrate.findings import Examined, Finding, Unreadable

STDIN = "-"
# The modules of `from a.b import c`, `from . import a` and `import a.b, c`.
_IMPORTS = re.compile(rb"\bfrom +(\w[\w.]*|\.+\w[\w.]*|\.+ +import\b.*)|\bimport +(.+)")
# What the parsers raise for a text that is not Python.
_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclasses.dataclass
class Outcome:
    """All that one run has found and done.

    Attributes:
      options: what the command was asked for.
      files: what is found in each file.
      unreadable: what could not be read, or was left alone, and why.
      written: whether the fixes were written.
    """

    options: Options = dataclasses.field(default_factory=Options)
    files: list[Examined] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)
    written: bool = False

    @property
    def findings(self) -> list[Finding]:
        """All findings."""
        return [found for file in self.files for found in file.findings]

    @property
    def left(self) -> list[Finding]:
        """The findings that `migrate` leaves to a person."""
        return [found for file in self.files for found in file.left]

    @property
    def changed(self) -> list[Examined]:
        """The files that change."""
        return [file for file in self.files if file.new != file.old]

    @property
    def exit_code(self) -> int:
        """2 when something could not be read, else 1 when something breaks, else 0."""
        if self.unreadable:
            return 2
        return int(any(found.fails for found in self.findings))


def check(
    paths: Iterable[str], options: Options | None = None, command: str = "check"
) -> Outcome:
    """Return what is found in files and folders; `-` is the standard input.

    Example:
    >>> from tf_lso.migrate import files
    >>> files.check(["no/such/file.py"]).exit_code
    2
    """
    outcome = Outcome(options or Options())

    def failed(path: str, error: Exception) -> None:
        outcome.unreadable.append(Unreadable(path, reason(error)))

    _imported_in.cache_clear()  # the files may have changed
    paths = list(paths)
    listed = find([path for path in paths if path != STDIN], failed)
    if command == "migrate":  # a pipe would wait for its writer
        for path in [path for path in listed if not os.path.isfile(path)]:
            listed.remove(path)
            failed(path, OSError("is no regular file"))
    listed += [path for path in paths if path == STDIN]
    for path in log.progress_bar(listed, f"tf-lso {command}", "file"):
        file = examine(path, outcome.options)
        outcome.files.append(file)
        outcome.unreadable += file.unreadable
    return outcome


def reason(error: BaseException) -> str:
    """Return what the operating system says about a path, or else the error."""
    return getattr(error, "strerror", None) or str(error)


def examine(path: str, options: Options) -> Examined:
    """Return what is found in a file. One without a part of an old name is not parsed."""
    file = Examined(path, notebook=path.lower().endswith(".ipynb"))
    try:
        file.old = file.new = _read(path)
        if engine.may_have_old_names(file.old.decode("utf-8", "replace")):
            file.entry = _entry(path)
            (_notebook if file.notebook else _program)(file, options)
    except OSError as error:
        file.unreadable = [Unreadable(path, f"cannot be opened: {reason(error)}")]
    except _ERRORS as error:
        file.unreadable = [_unreadable(path, error)]
    except Exception as error:  # a defect of ours must not stop the other files
        why = f"tf-lso fails on it: {type(error).__name__}: {error}"
        file.unreadable = [Unreadable(path, why)]
    return file


def _read(path: str) -> bytes:
    if path == STDIN:
        return sys.stdin.buffer.read()
    with open(path, "rb") as file:
        return file.read()


def _entry(path: str) -> str:
    """Return where `install()` belongs for a module of a package, or ""."""
    folder = os.path.dirname(os.path.abspath(path))
    if path == STDIN or not os.path.exists(os.path.join(folder, "__init__.py")):
        return ""
    while os.path.exists(os.path.join(os.path.dirname(folder), "__init__.py")):
        folder = os.path.dirname(folder)
    if os.path.exists(os.path.join(folder, "__main__.py")):
        return f"{os.path.basename(folder)}/__main__.py"
    return f"the program that imports {os.path.basename(folder)}"


def _is_imported(path: str) -> bool:
    """Whether a file beside it may import from a file."""
    folder, name = os.path.split(os.path.abspath(path))
    return path != STDIN and os.path.splitext(name)[0] in _imported_in(folder)


@functools.cache
def _imported_in(folder: str) -> frozenset[str]:
    """Return the words in the names of all modules that programs of a folder import."""
    found = set[bytes]()
    for name in os.listdir(folder):
        file = os.path.join(folder, name)
        if name.lower().endswith(SUFFIXES) and os.path.isfile(file):
            with contextlib.suppress(OSError):
                for line in _read(file).split(b"\n"):
                    imported = _IMPORTS.search(line)
                    found.update(re.findall(rb"\w+", imported[0]) if imported else ())
    return frozenset(word.decode("utf-8", "replace") for word in found)


def _program(file: Examined, options: Options) -> None:
    text, encoding = decoded(file.old)
    place = engine.Place(not file.entry, not file.entry and not _is_imported(file.path))
    result = engine.examine(text, options, place)
    _note(file, result)
    file.new = result.text.encode(encoding)


def _notebook(file: Examined, options: Options) -> None:
    parsed, unparsed = list[notebooks.Cell](), list[str]()
    for number, text in notebooks.cells(file.old):
        cell = None
        try:
            cell = notebooks.parse(number, text)
        except _ERRORS as error:
            if engine.may_have_old_names(text):
                file.unreadable.append(_unreadable(file.path, error, number))
        if cell:
            parsed.append(cell)
        else:
            unparsed.append(text)
    result, texts = notebooks.examine_cells(parsed, options, unparsed)
    _note(file, result)
    if texts:
        file.new = notebooks.encoded(file.old, texts)


def _note(file: Examined, result: engine.Result) -> None:
    file.findings, file.places = result.findings, result.places
    file.installs = result.installs
    for found in file.findings:
        found.file = file.path


def _unreadable(path: str, error: BaseException, cell: int | None = None) -> Unreadable:
    """Return why a text cannot be read, with the line where there is one."""
    line = getattr(error, "lineno", None)
    match error:
        case RecursionError() | MemoryError():
            why = "nested too deeply for this Python"
        case json.JSONDecodeError():
            why, line = f"not the JSON of a notebook: {error.msg}", None
        case UnicodeDecodeError():
            why = f"not text in {error.encoding}"
        case SyntaxError():
            why = f"does not parse: {error.msg}"
        case _:
            why = str(error)
    return Unreadable(path, why, cell, line)


def decoded(data: bytes) -> tuple[str, str]:
    """Return the text of a Python file, and the encoding that gives the bytes back.

    Raises:
      SyntaxError: if the declared encoding does not exist.
      ValueError: if the bytes are not of that encoding.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except LookupError as error:  # such as `hex`, which gives bytes
        raise SyntaxError(f"encoding problem: {error}") from error
    except SyntaxError:
        data.decode()  # if it fails too, its error says more
        raise
    if text.encode(encoding) != data:
        raise ValueError(f"its {encoding} text cannot be written back as it is")
    return text, encoding
