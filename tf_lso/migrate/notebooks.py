"""Examine notebooks: join the cells into one program, and split the result into cells again.

Cells share their variables, so they are examined as one program. A line that contains only a
special name, such as `tf_lso_cell_2`, separates two cells. Lines that only IPython understands
are replaced by placeholders before parsing, and restored afterwards. Apart from the cells that
change, all bytes of the file stay the same.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import libcst as cst

from tf_lso.migrate import engine
from tf_lso.migrate.engine import Options
from tf_lso.migrate.findings import Examined, Unreadable, unreadable
from tf_lso.migrate.install import MAGIC
from tf_lso.migrate.nodes import literal

# The cell magics after which the rest of the cell still runs as Python in the notebook. Cells
# with other cell magics, such as `%%bash`, are skipped.
_RUN_PYTHON = {"time", "timeit", "capture", "prun", "debug", "memit", "mprun", "lprun"}
# Matches a line that only IPython understands. This is a magic, a shell command, a request for
# help, or an assignment such as `files = !ls` whose value is a magic or a shell command.
_MAGIC = re.compile(
    r"""^(?P<indent>\s*)(?:
        (?P<marked>[%!?]) .*
      | [/,;] .*
      | [\w.]+ (?:\[[^\]]*\])? \?\??\s*
      | (?:pip|conda|mamba|cd|ls|ll|cat|cp|mv|rm|mkdir|rmdir|run|load|env|time|timeit
          |matplotlib|man|more|less) [ \t]+ [^=\s(\[,] .*  # magics that work without `%`
      | (?P<target>[A-Za-z_][\w, ]*?) \s* = \s* [%!] .*
    )$""",
    re.VERBOSE,
)
_PLACEHOLDER = MAGIC + "{}"
_BETWEEN = "tf_lso_cell_{}"
_INDENTED = "if tf_lso_indented:"


class Cell(NamedTuple):
    """A notebook cell that contains Python code."""

    number: int  # the number of the cell in the notebook, from 1
    text: str  # the source code of the cell in the notebook
    python: str  # the source code with placeholders, which Python can parse
    hidden: dict[str, str]  # maps each placeholder to the line that it replaces
    indent: str  # the indent of the whole cell, which IPython ignores


def cells(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield (number, source) for each code cell of a Python notebook.

    Raises:
      ValueError: if the file is not a notebook.
    """
    try:
        notebook = json.loads(data)
        metadata = notebook.get("metadata", {})
        language = metadata.get("kernelspec", {}).get("language")
        language = metadata.get("language_info", {}).get("name", language)
        if language and not language.lower().startswith(("python", "ipython")):
            return
        for number, cell in enumerate(notebook["cells"], 1):
            if cell["cell_type"] == "code":
                yield number, "".join(cell.get("source", ""))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a notebook: {error}") from error


def parse(number: int, text: str) -> Cell | None:
    """Return a `Cell` for the source `text`, or None if the text is blank or not Python.

    Lines are replaced by placeholders only if Python cannot parse the cell. So lines with the
    operator `%` stay unchanged.

    Raises:
      SyntaxError: if the cell is not Python even with placeholders.
    """
    lines = _lines(text)
    first = next(filter(str.strip, lines), "")
    if not first:
        return None
    magic = re.match(r"\s*%%\s*(\S*)", first)
    if magic and magic[1] not in _RUN_PYTHON:
        return None
    indent = re.match(r"[ \t]*", first)[0]  # type: ignore[index]
    hidden: dict[str, str] = {}
    while True:
        python = "\n".join([_INDENTED, *lines] if indent else lines)
        try:
            engine.check_syntax(python)
        except SyntaxError as error:
            line = (error.lineno or 1) - bool(indent)
            error.lineno = line
            if not _hide(lines, line, hidden, number):
                raise
            continue
        return Cell(number, text, python, hidden, indent)


def _hide(lines: list[str], number: int, hidden: dict[str, str], cell: int) -> bool:
    """Replace one magic (a line that only IPython understands) in `lines` by a placeholder.

    The function replaces the magic at line `number`, where Python's parser has reported an
    error. If this line has no magic, another line may have caused the error. Then the function
    replaces the first line of the cell that begins with `%`, `!` or `?`.

    Args:
      lines: list of the lines of the cell, which is changed in place.
      number: the number of the line with the error, from 1.
      hidden: dict to which {placeholder: replaced line} is added.
      cell: the number of the cell.

    Returns:
      True if a magic was replaced, False if none was found.
    """
    current = min(max(number, 1), len(lines)) - 1
    for first in (current, *range(len(lines))):
        found = _MAGIC.match(lines[first])
        if found and (first == current or found["marked"]):
            last = first
            while lines[last].endswith("\\") and last + 1 < len(lines):
                last += 1
            for line in range(first, last + 1):
                name = _PLACEHOLDER.format(f"{cell}_{line}")
                hidden[name] = lines[line]
                lines[line] = found["indent"] + name
            if found["target"]:
                lines[last] = f"{found['indent']}{found['target']} = {name}"
            return True
    return False


def examine(data: bytes, options: Options) -> Examined:
    """Examine the bytes of a notebook, as `engine.examine` does for a program."""
    parsed, failed = list[Cell](), list[Unreadable]()
    for number, text in cells(data):
        try:
            cell = parse(number, text)
        except engine.ERRORS as error:
            if engine.may_have_old_names(text):
                failed.append(unreadable(error, number))
        else:
            parsed += [cell] if cell else []
    joined, line = list[str](), 1
    starts = list[tuple[int, Cell]]()
    for cell in parsed:
        between = [_BETWEEN.format(cell.number)] if joined else []
        text = "\n".join([*between, cell.python])
        starts.append((line + len(between) + bool(cell.indent), cell))
        joined.append(text)
        line += text.count("\n") + 1
    result = engine.examine("\n".join(joined), options)
    for found in result.findings:
        start, cell = [item for item in starts if item[0] <= found.line][-1]
        found.cell, found.line = cell.number, found.line - start + 1
        found.code = _lines(cell.text)[found.line - 1].strip()
    texts = {c.number: t for c, t in zip(parsed, _apart(result.new, parsed))}
    changed = {c.number for c in parsed if _lines(texts[c.number]) != _lines(c.text)}
    new = _encoded(data, {number: texts[number] for number in changed})
    result.old, result.new, result.unreadable = data, new, failed
    return result


def _lines(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text)


def _apart(text: str, parsed: list[Cell]) -> Iterator[str]:
    """Split the joined program at the separating lines, and yield the text of each cell."""
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
    """Return the text of a cell after its indent and its IPython lines have been restored."""
    lines = text.split("\n")
    if cell.indent and _INDENTED in lines:
        index = lines.index(_INDENTED)
        before = [cell.indent + line if line else line for line in lines[:index]]
        lines = [*before, *lines[index + 1 :]]
    for index, line in enumerate(lines):
        name = re.search(rf"{MAGIC}\d+_\d+$", line)
        if name:
            lines[index] = cell.hidden[name[0]]
    newline = re.search(r"\r\n|\r|\n", cell.text)
    return (newline[0] if newline else "\n").join(lines)


# --- Writing the file.


class _Replace(cst.CSTTransformer):
    """A transformer of LibCST's tree that replaces some nodes by other nodes."""

    def __init__(self, new: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        self.new = new

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Return the node that replaces `original_node`, or `updated_node` if none does."""
        return self.new.get(original_node, updated_node)


def _encoded(data: bytes, sources: dict[int, str]) -> bytes:
    """Return the bytes of a notebook in which some cells have new sources.

    The function parses the JSON text with LibCST, since the text is also an expression of
    Python. Unlike the module `json`, LibCST keeps the layout of the rest of the text.

    Args:
      data: the bytes of the notebook.
      sources: dict that maps the numbers of the changed cells to their new sources.
    """
    if not sources:
        return data
    encoding = "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
    text = data.decode(encoding)
    module: Any = cst.parse_module(f"({text})")
    listed = _item(module.body[0].body[0].value, "cells")
    replaced: dict[cst.CSTNode, cst.CSTNode] = {}
    for number, source in sources.items():
        old = _item(listed.elements[number - 1].value, "source")
        replaced[old] = _sourced(old, source, text.isascii())
    code: str = module.visit(_Replace(replaced)).code
    return code[1:-1].encode(encoding)


def _item(node: Any, name: str) -> Any:
    """Return the value for the key `name` in the node of a dict.

    If the key occurs several times, the last value counts, as in Python's module `json`.
    """
    return {literal(item.key): item.value for item in node.elements}[name]


def _sourced(old: Any, source: str, is_ascii: bool) -> cst.CSTNode:
    """Return the node for a new source: a list of lines if `old` is a list, else a string."""

    def spelled(text: str) -> cst.SimpleString:
        # Escape characters that are not ASCII if the file contains no such character. Then the
        # program that wrote the notebook probably escapes them, too.
        return cst.SimpleString(json.dumps(text, ensure_ascii=is_ascii))

    if not isinstance(old, cst.List):
        return spelled(source)
    listed: Any = old.elements
    kept = {json.loads(item.value.value): item.value for item in listed}
    between = listed[0].comma
    if len(listed) == 1:
        # A list with one line has no comma between lines. So copy the spaces after the opening
        # bracket to use them after each new comma.
        between = cst.Comma(whitespace_after=old.lbracket.whitespace_after)
    lines = re.findall(r"[^\n]*\n|[^\n]+", source)
    values = [kept.get(line) or spelled(line) for line in lines]
    elements = [cst.Element(value, between) for value in values[:-1]]
    last = cst.Element(values[-1], listed[-1].comma)
    return old.with_changes(elements=[*elements, last])
