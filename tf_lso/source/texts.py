"""The text of a file or cell: offsets of syntax nodes, and edits of it."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

_NEWLINE = re.compile(r"\r\n|\r|\n")


class Edit(NamedTuple):
    """Replaces the text from `start` to `end` by `new`."""

    start: int
    end: int
    new: str


class Text:
    """A source text.

    Attributes:
      starts: where its lines begin, as Python's parser counts them.
      lines: its lines, without the white space around them.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
        self.lines = [line.strip() for line in _NEWLINE.split(text)]

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

    def before(self, node: Any) -> str:
        """Return what stands before a node in its line."""
        return self.text[self.starts[node.lineno - 1] : self.start(node)]

    def after(self, node: Any) -> str:
        """Return what stands after a node in its line, without the line's end."""
        return _NEWLINE.split(self.text[self.end(node) :], 1)[0]

    def newline(self) -> str:
        """Return the first line end of the text."""
        found = _NEWLINE.search(self.text)
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
