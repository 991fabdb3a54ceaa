"""How the reports of `check` and `migrate` are written."""

import json
import os
import shutil
import textwrap
from collections.abc import Iterable
from typing import Any, TextIO

from tf_lso.source.reading import Unreadable

_WIDTH = 88  # where there is no terminal


def plural(count: int, word: str) -> str:
    """Return a number of things in words."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def place(file: str, *inside: int | None) -> str:
    """Return where something is, as `file:cell 3:line:column`, as far as known."""
    cell, *others = inside
    parts = [file, f"cell {cell}" if cell else None, *others]
    return ":".join(str(part) for part in parts if part)


class Printer:
    """Writes text for people.

    Args:
      stream: where it goes. A terminal gets colors, unless NO_COLOR is set, and lines
        of its width.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._terminal = stream.isatty()
        self._colors = self._terminal and not os.environ.get("NO_COLOR")
        size = shutil.get_terminal_size((_WIDTH, 0))
        self._width = max(size.columns, 40) if self._terminal else _WIDTH

    def write(self, text: str) -> None:
        """Write a text. File names may have any bytes."""
        encoded = text.encode(self._encoding, "backslashreplace")
        self._stream.write(encoded.decode(self._encoding))

    def paint(self, text: str, color: str) -> str:
        """Return the text, in color if the stream shows colors."""
        return f"\033[{color}m{text}\033[0m" if self._colors else text

    def wrap(self, text: str) -> str:
        """Return the text in lines that fit the terminal."""
        return textwrap.fill(text, self._width) if self._terminal else text

    def paragraph(self, label: str, text: str) -> str:
        """Return an indented paragraph that begins with a label."""
        wrapped = textwrap.fill(
            text,
            self._width,
            initial_indent=f"    {label + ':':<8}",
            subsequent_indent=" " * 12,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return f"{wrapped}\n"

    def unreadable(self, items: Iterable[Unreadable], label: str) -> None:
        """Write what could not be read."""
        label = self.paint(label, "31")
        lines = [
            f"{place(item.file, item.cell, item.line)}: {label}  {item.reason}\n"
            for item in items
        ]
        self.write("".join([*lines, "\n"]) if lines else "")


def write_json(document: dict[str, Any], stream: TextIO) -> None:
    """Write one JSON object, in ASCII. File names may have any bytes."""
    json.dump(document, stream, indent=2, allow_nan=False)
    stream.write("\n")
