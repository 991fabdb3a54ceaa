"""Parses the texts of a program, and says why one cannot be read."""

import ast
import io
import json
import tokenize
import warnings
from collections.abc import Iterable

from tf_lso.source import lookup, notebooks
from tf_lso.source.diagnostics import Unreadable
from tf_lso.source.texts import Text

# What the parser raises for a text that is not Python.
ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


class Sources:
    """The texts of a file or notebook by cell, and the trees of those that are Python.

    The cell of a file is None.
    """

    def __init__(
        self, path: str, cells: Iterable[tuple[int | None, str | bytes]]
    ) -> None:
        self.trees: dict[int | None, ast.Module] = {}
        self.texts: dict[int | None, Text] = {}
        self.failed: list[Unreadable] = []
        for cell, source in cells:
            try:
                text = source if isinstance(source, str) else decoded(source)[0]
                with warnings.catch_warnings():  # the program's own, about its texts
                    warnings.simplefilter("ignore")
                    tree = ast.parse(text) if cell is None else notebooks.parse(text)
            except ERRORS as error:
                if cell is None or lookup.may_have_old_names(source):
                    self.failed.append(unreadable(path, error, cell))
                continue
            self.texts[cell] = Text(text)
            if tree is not None:
                self.trees[cell] = tree


def unreadable(path: str, error: BaseException, cell: int | None = None) -> Unreadable:
    """Return why a text cannot be read, with the line where there is one."""
    line = getattr(error, "lineno", None)
    match error:
        case RecursionError() | MemoryError():
            reason = "nested too deeply for Python's parser"
        case json.JSONDecodeError():
            reason, line = f"not the JSON of a notebook: {error.msg}", None
        case UnicodeDecodeError():
            reason = f"not text in {error.encoding}"
        case SyntaxError():
            reason = f"does not parse: {error.msg}"
        case _:
            reason = str(error)
    return Unreadable(path, reason, cell, line)


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


def encoded(data: bytes, texts: dict[int | None, str]) -> bytes:
    """Return the bytes of a file with a new text."""
    return texts[None].encode(decoded(data)[1])
