"""Parses the texts of a program, and says why one cannot be read."""

import ast
import dataclasses
import json
import warnings
from collections.abc import Iterable

from tf_lso.source import lookup, notebooks
from tf_lso.source.files import Unreadable
from tf_lso.source.scopes import Program
from tf_lso.source.texts import Text, readable
from tf_lso.source.walk import walk

_TOO_DEEP = "nested too deeply for Python's parser"
# What the parser raises for a text that is not Python.
ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclasses.dataclass
class Sources:
    """The texts of a file or notebook by cell. The cell of a file is None.

    Attributes:
      texts: the texts of the trees.
      foreign: the texts of cells of another language.
    """

    trees: dict[int | None, ast.Module] = dataclasses.field(default_factory=dict)
    texts: dict[int | None, Text] = dataclasses.field(default_factory=dict)
    foreign: dict[int | None, Text] = dataclasses.field(default_factory=dict)
    failed: list[Unreadable] = dataclasses.field(default_factory=list)

    def program(self) -> Program:
        """Return the scopes and places of the trees."""
        program = Program()
        for cell, tree in self.trees.items():
            walk(program, tree, cell)
        program.finish()
        return program


def parsed(path: str, cells: Iterable[tuple[int | None, str | bytes]]) -> Sources:
    """Return the texts of a program, parsed; `cells` has each with its number."""
    done = Sources()
    for cell, source in cells:
        text = readable(source)
        try:
            with warnings.catch_warnings():  # the program's own, about its texts
                warnings.simplefilter("ignore")
                tree = ast.parse(source) if cell is None else notebooks.parse(text)
        except ERRORS as error:
            if cell is None or lookup.may_have_old_names(source):
                done.failed.append(unreadable(path, error, cell))
            continue
        if tree is None:
            done.foreign[cell] = Text(text)
        else:
            done.trees[cell], done.texts[cell] = tree, Text(text)
    return done


def unreadable(path: str, error: BaseException, cell: int | None = None) -> Unreadable:
    """Return why a text cannot be read, with the line where there is one."""
    line, reason = getattr(error, "lineno", None), str(error)
    if isinstance(error, (RecursionError, MemoryError)):
        reason = _TOO_DEEP
    elif isinstance(error, json.JSONDecodeError):
        reason = f"not the JSON of a notebook: {error.msg}"
    elif isinstance(error, UnicodeDecodeError):
        reason = f"not text in {error.encoding}"
    elif isinstance(error, SyntaxError):
        reason = f"does not parse: {error.msg}"
    return Unreadable(path, cell, line, reason)
