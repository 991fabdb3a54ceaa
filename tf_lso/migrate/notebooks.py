"""Notebooks: their cells as one program, and a new text for each cell.

A line that only IPython understands is replaced by a name before parsing, and put back
afterwards. The cells stand one after the other with a name between them, since they share
their names. All other bytes of the file stay.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import libcst as cst

from tf_lso.migrate import hidden_lines
from tf_lso.migrate.engine import Options, Place, Result, check_syntax, examine
from tf_lso.migrate.findings import Edit
from tf_lso.migrate.imports import Apply
from tf_lso.migrate.install import MAGIC
from tf_lso.migrate.nodes import literal

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
_PLACEHOLDER = MAGIC + "{}"
_BETWEEN = "tf_lso_cell_{}"
_INDENTED = "if tf_lso_indented:"


class Cell(NamedTuple):
    """A cell of Python: its number from 1, its text, and what is parsed for it."""

    number: int
    text: str
    python: str
    hidden: dict[str, str]  # placeholder -> the line that it stands for
    indent: str  # the indent of the whole cell, which IPython ignores


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


def parse(number: int, text: str) -> Cell | None:
    """Return a cell, or None for a cell of another language.

    A line that only IPython understands is hidden if Python fails on it, so that the `%`
    of arithmetic stays.

    Raises:
      SyntaxError: if something else is not Python.
    """
    lines = re.split(r"\r\n|\r|\n", text)
    first = next(filter(str.strip, lines), "")
    magic = re.match(r"\s*%%\s*(\S*)", first)
    if magic and magic[1] not in _RUN_PYTHON:
        return None
    indent = re.match(r"[ \t]*", first)[0]  # type: ignore[index]
    hidden: dict[str, str] = {}
    while True:
        python = "\n".join([_INDENTED, *lines] if indent else lines)
        try:
            check_syntax(python)
        except SyntaxError as error:
            line = (error.lineno or 1) - bool(indent)
            error.lineno = line
            if not _hide(lines, line, hidden, number):
                raise
            continue
        return Cell(number, text, python, hidden, indent)


def _hide(lines: list[str], number: int, hidden: dict[str, str], cell: int) -> bool:
    """Hide the magic at a line, or else the first one: the error may come from it."""
    here = min(max(number, 1), len(lines)) - 1
    for place in (here, *range(len(lines))):
        found = _MAGIC.match(lines[place])
        if found and (place == here or found["marked"]):
            last = place
            while lines[last].endswith("\\") and last + 1 < len(lines):
                last += 1
            for line in range(place, last + 1):
                name = _PLACEHOLDER.format(f"{cell}_{line}")
                hidden[name] = lines[line]
                lines[line] = found["indent"] + name
            if found["target"]:
                lines[last] = f"{found['indent']}{found['target']} = {name}"
            return True
    return False


def examine_cells(
    parsed: list[Cell], options: Options, unparsed: Iterable[str] = ()
) -> tuple[Result, dict[int, str]]:
    """Return what is found in the cells, and the new texts of those that change.

    Args:
      parsed: the cells.
      options: what the command was asked for.
      unparsed: the texts of the other cells, which may use names of these.
    """
    hidden = [line for cell in parsed for line in cell.hidden.values()]
    words = frozenset(re.findall(r"\w+", "\n".join([*hidden, *unparsed])))
    joined, line = list[str](), 1
    starts = list[tuple[int, Cell]]()
    for cell in parsed:
        between = [_BETWEEN.format(cell.number)] if joined else []
        text = "\n".join([*between, cell.python])
        starts.append((line + len(between) + bool(cell.indent), cell))
        joined.append(text)
        line += text.count("\n") + 1
    result = examine("\n".join(joined), options, Place(words=words))
    for found in result.findings:
        start, cell = [one for one in starts if one[0] <= found.line][-1]
        found.cell, found.line = cell.number, found.line - start + 1
        found.code = re.split(r"\r\n|\r|\n", cell.text)[found.line - 1].strip()
    result.findings += hidden_lines.find(
        [
            (cell.number, int(name.rpartition("_")[2]) + 1, line)
            for cell in parsed
            for name, line in cell.hidden.items()
        ]
    )
    result.findings.sort(key=lambda found: (found.cell or 0, found.line))
    texts = _apart(result.text, parsed)
    changed = {
        c.number: t for c, t in zip(parsed, texts) if _lines(t) != _lines(c.text)
    }
    return result, changed


def _lines(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text)


def _apart(text: str, parsed: list[Cell]) -> Iterator[str]:
    """Yield the texts of the cells in the text of all of them."""
    for index, cell in enumerate(parsed):
        if index + 1 < len(parsed):
            between = re.compile(
                rf"^{_BETWEEN.format(parsed[index + 1].number)}\n", re.MULTILINE
            )
            own, text = between.split(text, 1)
            own = own.removesuffix("\n")
        else:
            own = text
        yield _restored(own, cell)


def _restored(text: str, cell: Cell) -> str:
    """Return the text of a cell with its own indent, and the lines that were hidden."""
    lines = text.split("\n")
    if cell.indent and _INDENTED in lines:
        at = lines.index(_INDENTED)
        before = [cell.indent + line if line else line for line in lines[:at]]
        lines = [*before, *lines[at + 1 :]]
    for index, line in enumerate(lines):
        name = re.search(rf"{MAGIC}\d+_\d+$", line)
        if name:
            lines[index] = cell.hidden[name[0]]
    newline = re.search(r"\r\n|\r|\n", cell.text)
    return (newline[0] if newline else "\n").join(lines)


# --- The file, with new sources for some of its cells.


def encoded(data: bytes, sources: dict[int, str]) -> bytes:
    """Return the bytes of a notebook with new sources for some of its cells.

    JSON is an expression of Python, too, so LibCST keeps all that is not replaced.
    """
    encoding = "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
    text = data.decode(encoding)
    module: Any = cst.parse_module(f"({text})")
    listed = _item(module.body[0].body[0].value, "cells")
    replaced: dict[cst.CSTNode, Edit] = {}
    for number, source in sources.items():
        old = _item(listed.elements[number - 1].value, "source")
        replaced[old] = _put(_sourced(old, source, text.isascii()))
    code: str = module.visit(Apply(replaced, {})).code
    return code[1:-1].encode(encoding)


def _put(new: Any) -> Edit:
    """Return the edit that puts a node in the place of another."""
    return lambda old: new


def _item(node: Any, name: str) -> Any:
    """Return what a dict has under a name; of several, JSON takes the last one."""
    return {literal(item.key): item.value for item in node.elements}[name]


def _sourced(old: Any, source: str, is_ascii: bool) -> Any:
    """Return the node of a new source: a text, or a list of its lines as it was before."""
    # A notebook escapes what is not ASCII, or does not.
    if not isinstance(old, cst.List):
        return cst.SimpleString(json.dumps(source, ensure_ascii=is_ascii))
    listed: Any = old.elements
    spelled: dict[str, Any] = {
        json.loads(element.value.value): element.value for element in listed
    }
    between = old.elements[0].comma
    if len(old.elements) == 1:  # lines stand by themselves, or all behind the bracket
        between = cst.Comma(whitespace_after=old.lbracket.whitespace_after)
    values = [
        spelled.get(line) or cst.SimpleString(json.dumps(line, ensure_ascii=is_ascii))
        for line in re.findall(r"[^\n]*\n|[^\n]+", source)
    ]
    last = old.elements[-1].comma
    elements = [cst.Element(value, between) for value in values[:-1]]
    return old.with_changes(elements=[*elements, cst.Element(values[-1], last)])
