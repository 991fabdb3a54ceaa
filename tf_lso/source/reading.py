"""Parses the texts of a program, and says why one cannot be read."""

import ast
import dataclasses
import functools
import json
import re
import warnings
from collections.abc import Iterable

from tf_lso.source import lookup, notebooks
from tf_lso.source.files import Unreadable
from tf_lso.source.scopes import Program
from tf_lso.source.texts import Text, readable
from tf_lso.source.walk import walk

_TOO_DEEP = "nested too deeply for Python's parser"
_PYTHON_2 = re.compile(
    r"Missing parentheses in call to '(print|exec)'"
    r"|multiple exception types must be parenthesized"
    r"|leading zeros in decimal integer"
    r"|invalid octal"
)
_PYTHON_2_LINE = re.compile(
    r"^\s*(print\s+[^=(\s].*|exec\s+\S.*|raise\s+\w+\s*,.*|except\s+\w+\s*,\s*\w+\s*:.*)$"
    r"|<>|\b0[0-7]+\b"
)
# What the parser raises for a text that is not Python.
ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclasses.dataclass
class Sources:
    """The texts of a file or notebook by cell. The cell of a file is None.

    Attributes:
      foreign: the texts of cells of another language.
    """

    trees: dict[int | None, ast.Module] = dataclasses.field(default_factory=dict)
    sources: dict[int | None, str | bytes] = dataclasses.field(default_factory=dict)
    foreign: dict[int | None, str | bytes] = dataclasses.field(default_factory=dict)
    failed: list[Unreadable] = dataclasses.field(default_factory=list)

    @functools.cached_property
    def texts(self) -> dict[int | None, Text]:
        """The texts of the trees, by cell."""
        return {cell: Text(readable(text)) for cell, text in self.sources.items()}

    def program(self) -> Program:
        """Return the scopes and places of the trees."""
        program = Program()
        for cell, tree in self.trees.items():
            program.cell = cell
            walk(program, tree)
        program.finish()
        return program


def parsed(path: str, cells: Iterable[tuple[int | None, str | bytes]]) -> Sources:
    """Return the texts of a program, parsed; `cells` has each with its number."""
    done = Sources()
    for cell, source in cells:
        try:
            with warnings.catch_warnings():  # the program's own, about its texts
                warnings.simplefilter("ignore")
                tree = (
                    ast.parse(source)
                    if cell is None
                    else notebooks.parse(readable(source))
                )
        except ERRORS as error:
            if cell is None or lookup.may_have_old_names(source):
                done.failed.append(unreadable(path, error, source, cell))
            continue
        if tree is None:
            done.foreign[cell] = source
        else:
            done.trees[cell], done.sources[cell] = tree, source
    return done


def unreadable(
    path: str, error: BaseException, source: str | bytes, cell: int | None = None
) -> Unreadable:
    """Return why a text cannot be read, with the line where there is one."""
    if isinstance(error, (RecursionError, MemoryError)):
        return Unreadable(path, cell, None, _TOO_DEEP)
    if isinstance(error, json.JSONDecodeError):
        reason = f"not the JSON of a notebook: {error.msg}"
        return Unreadable(path, cell, error.lineno, reason)
    if isinstance(error, UnicodeDecodeError):
        return Unreadable(path, cell, None, f"not text in {error.encoding}")
    if not isinstance(error, SyntaxError):
        return Unreadable(path, cell, None, str(error))
    reason = f"does not parse: {error.msg}"
    if _is_python_2(error, source):
        reason += " (this looks like Python 2: convert it to Python 3 first)"
    return Unreadable(path, cell, error.lineno, reason)


def _is_python_2(error: SyntaxError, source: str | bytes) -> bool:
    if _PYTHON_2.search(error.msg or ""):
        return True
    text = Text(readable(source))
    number = error.lineno or 0
    return 0 < number <= len(text.starts) and bool(
        _PYTHON_2_LINE.search(text.line(number))
    )
