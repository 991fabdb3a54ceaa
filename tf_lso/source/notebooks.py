"""The Python of a notebook's cells, without what is not Python, and new texts of cells."""

import ast
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

from tf_lso.source.syntax import listed, literal
from tf_lso.source.texts import Edit, Text, applied

# Cell magics whose body runs as Python in the notebook.
_RUN_PYTHON = {"time", "timeit", "capture", "prun", "debug", "memit", "mprun", "lprun"}
# A line that only IPython understands: a magic, a shell command, help, or `name =` and
# one of them.
_MAGIC = re.compile(
    r"""^(?P<indent>\s*)(?:
        (?P<marked>[%!?]) .*
      | [/,;] .*
      | [\w.]+ (?:\[[^\]]*\])? \?\??\s*
      | (?:pip|conda|mamba|cd|ls|ll|cat|cp|mv|rm|mkdir|rmdir|run|load|env|time|timeit
          |matplotlib|man|more|less) [ \t]+ [^=\s(\[,] .*  # works without its `%`
      | (?P<target>[A-Za-z_][\w, ]*?) \s* = \s* [%!] .*
    )$""",
    re.VERBOSE,
)


def cells(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield (number, source) of the code cells of a notebook that are Python.

    Raises:
      ValueError: if the file is no notebook.
    """
    notebook = json.loads(data)
    try:
        metadata = notebook.get("metadata", {})
        language = metadata.get("kernelspec", {}).get("language")
        language = metadata.get("language_info", {}).get("name", language)
        if language and not language.lower().startswith(("python", "ipython")):
            return
        for number, cell in enumerate(notebook["cells"], 1):
            if cell["cell_type"] == "code":
                yield number, "".join(cell.get("source", ""))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("not a notebook: it has no list of cells") from error


def parse(source: str) -> ast.Module | None:
    """Return the tree of a cell, with the line numbers of the cell.

    A line that only IPython understands is taken out if Python fails on it, so that the
    `%` of arithmetic stays. A cell of another language gives None.

    Raises:
      SyntaxError: if something else is not Python.
    """
    lines = re.split(r"\r\n|\r|\n", source)
    first = next(filter(str.strip, lines), "")
    magic = re.match(r"\s*%%\s*(\S*)", first)
    if magic and magic[1] not in _RUN_PYTHON:
        return None
    # IPython takes the indent of a whole cell off.
    indented = first[:1] in (" ", "\t")
    while True:
        try:
            tree = ast.parse("\n".join(["if 1:" if indented else "", *lines]))
        except SyntaxError as error:
            error.lineno = (error.lineno or 1) - 1
            if not _take_out(lines, error.lineno):
                raise
            continue
        ast.increment_lineno(tree, -1)
        if indented:
            tree.body[:1] = tree.body[0].body  # type: ignore[attr-defined]
        return tree


def _take_out(lines: list[str], number: int) -> bool:
    """Blank the magic at a line, or else the first one: the error may come from it."""
    here = min(max(number, 1), len(lines)) - 1
    for place in (here, *range(len(lines))):
        found = _MAGIC.match(lines[place])
        if found and (place == here or found["marked"]):
            while lines[place].endswith("\\") and place + 1 < len(lines):
                lines[place] = ""
                place += 1
            does = f"{found['target']} = None" if found["target"] else "pass"
            lines[place] = found["indent"] + does
            return True
    return False


# --- New sources for the cells of a notebook. Its other bytes stay.


def encoded(data: bytes, sources: dict[int | None, str]) -> bytes:
    """Return the bytes of a notebook with new sources for some of its cells."""
    encoding = "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
    text = Text(f"({data.decode(encoding)})")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about `\/`
        # JSON parses as Python does, and Python's nodes know their places.
        notebook = ast.parse(text.text, mode="eval").body
    cells = [None, *_item(notebook, "cells").elts]  # they are counted from 1
    edits = (_edit(text, _item(cells[n or 0], "source"), s) for n, s in sources.items())
    return applied(text.text, edits)[1:-1].encode(encoding)


def _item(node: Any, name: str) -> Any:
    """Return what a dict has under a name; of several, JSON takes the last one."""
    return {literal(key): value for key, value in zip(node.keys, node.values)}[name]


def _edit(text: Text, old: ast.expr, source: str) -> Edit:
    """Return the edit of a cell's source, which is a text or a list of its lines."""
    items, lines = listed(old), [source]
    if items != [old]:
        lines = re.findall(r"[^\n]*\n|[^\n]+", source)
    spelled = [text.of(item) for item in items]
    # One line stands by itself, or beside its bracket.
    between = f",{text.text[text.start(old) + 1 : text.start(items[0])]}"
    if len(items) > 1:
        between = text.text[text.end(items[0]) : text.start(items[1])]
    known = {json.loads(raw): raw for raw in spelled}
    ascii = text.text.isascii()  # a notebook escapes what is not, or does not
    new = (known.get(line) or json.dumps(line, ensure_ascii=ascii) for line in lines)
    return Edit(text.start(items[0]), text.end(items[-1]), between.join(new))
