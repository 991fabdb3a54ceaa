"""The text of a file or cell: offsets of syntax nodes, and edits of it."""

import bisect
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_NEWLINE = re.compile(r"\r\n|\r|\n")


class Edit(NamedTuple):
    """Replaces the text from `start` to `end` by `new`."""

    start: int
    end: int
    new: str


class Text:
    """A source text, and where its lines begin, as Python's parser counts them."""

    def __init__(self, text: str) -> None:
        self.text = text
        ends = [match.end() for match in _NEWLINE.finditer(text)]
        self.starts = [0, *ends]

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a place of the parser, whose columns are UTF-8 bytes."""
        start = self.starts[line - 1]
        text = self.text[start : start + column]
        if not text.isascii():
            text = text.encode()[:column].decode(errors="replace")
        return start + len(text)

    def start(self, node: Any) -> int:
        """Return the offset at which a node begins."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        """Return the offset at which a node ends."""
        return self.offset(node.end_lineno, node.end_col_offset)

    def of(self, node: Any) -> str:
        """Return the text of a node."""
        return self.text[self.start(node) : self.end(node)]

    def line(self, number: int) -> str:
        """Return a line without the white space around it."""
        end = self.starts[number] if number < len(self.starts) else None
        return self.text[self.starts[number - 1] : end].strip()

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Yield (number, line) of each line, without the white space around it."""
        for number in range(1, len(self.starts) + 1):
            yield number, self.line(number)

    def before(self, offset: int) -> str:
        """Return what stands before an offset in its line."""
        start = self.starts[bisect.bisect_right(self.starts, offset) - 1]
        return self.text[start:offset]

    def after(self, offset: int) -> str:
        """Return what stands after an offset in its line, without the line's end."""
        found = _NEWLINE.search(self.text, offset)
        return self.text[offset : found.start() if found else None]

    def newline(self, offset: int = 0) -> str:
        """Return the line end after an offset, or the first one of the text."""
        found = _NEWLINE.search(self.text, offset) or _NEWLINE.search(self.text)
        return found.group() if found else "\n"


def applied(text: str, edits: Iterable[Edit]) -> str:
    """Return the text after the edits.

    Raises:
      ValueError: if two edits overlap.
    """
    done, place = [], 0
    for edit in sorted(edits):
        if edit.start < place:
            raise ValueError(f"edits overlap at {edit.start}: {edit.new!r}")
        done += [text[place : edit.start], edit.new]
        place = edit.end
    return "".join([*done, text[place:]])


def decoded(data: bytes) -> tuple[str, str]:
    """Return the text of a Python file, and the encoding that gives the bytes back.

    Raises:
      SyntaxError: if the declared encoding does not exist.
      UnicodeError: if the bytes are not of that encoding.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        data.decode()  # if it fails too, its error says more
        raise
    try:
        text = data.decode(encoding)
    except LookupError as error:  # such as `hex`, which gives bytes
        raise SyntaxError(f"encoding problem: {encoding}") from error
    if text.encode(encoding) != data:
        raise ValueError(f"its {encoding} text cannot be written back as it is")
    return text, encoding


def readable(source: str | bytes) -> str:
    """Return the text as the parser decodes it. What is no text is replaced."""
    if isinstance(source, str):
        return source
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        return source.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        return source.decode(errors="replace")
