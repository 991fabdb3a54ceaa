"""How the reports of `check` and `migrate` are written."""

import json
import os
import textwrap
from collections.abc import Callable
from typing import Any, TextIO

from tf_lso.programs.sources import Unreadable


def plural(count: int, word: str) -> str:
    """Return a number of things in words."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def has_colours(stream: TextIO) -> bool:
    """Whether what is written there may be in color."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def paint(text: str, colour: str, colours: bool) -> str:
    """Return the text, in color where `colours` is true."""
    return f"\033[{colour}m{text}\033[0m" if colours else text


def place(file: str, *inside: Any) -> str:
    """Return where something is, as `file:cell 3:line:column`, as far as known.

    Args:
      file: path of the file.
      *inside: the cell, the line and the column, each an int or None.
    """
    cell, *others = inside
    parts = [file, f"cell {cell}" if cell else None, *others]
    return ":".join(str(part) for part in parts if part)


def paragraph(label: str, text: str) -> str:
    """Return an indented paragraph that begins with a label."""
    wrapped = textwrap.fill(
        text,
        88,
        initial_indent=f"    {label + ':':<8}",
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{wrapped}\n"


def unreadable(items: list[Unreadable], label: str, colours: bool) -> str:
    """Return the lines on what could not be read."""
    label = paint(label, "31", colours)
    lines = [
        f"{place(item.file, item.cell, item.line)}: {label}  {item.reason}\n"
        for item in items
    ]
    return "".join([*lines, "\n"]) if lines else ""


def writer(stream: TextIO) -> Callable[[str], None]:
    """Return a write that takes file names of any bytes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(string):
        encoded = string.encode(encoding, "backslashreplace")
        stream.write(encoded.decode(encoding))

    return write


def write_json(document: dict[str, Any], stream: TextIO) -> None:
    """Write one JSON object, in ASCII, whatever the file names."""
    json.dump(document, stream, indent=2, allow_nan=False)
    stream.write("\n")
