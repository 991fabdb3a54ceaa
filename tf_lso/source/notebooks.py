"""The Python of a notebook's cells, without what is not Python, and new texts of cells."""

import ast
import difflib
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

# Cell magics whose body runs as Python in the notebook.
_RUN_PYTHON = {"time", "timeit", "capture", "prun", "debug", "memit", "mprun", "lprun"}
# A line that only IPython understands: a magic, a shell command, help, or `name =` and
# one of them.
_MAGIC = re.compile(
    r"""^(?P<indent>\s*)(?:
        [%!?/,;] .*
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
        listed = notebook["cells"]
        kernel = notebook.get("metadata", {})
        language = kernel.get("kernelspec", {}).get("language")
        language = kernel.get("language_info", {}).get("name", language)
        if language and not language.lower().startswith(("python", "ipython")):
            return
        for number, cell in enumerate(listed, 1):
            if cell["cell_type"] == "code":
                source = cell.get("source", "")
                yield number, source if isinstance(source, str) else "".join(source)
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
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    foreign = False
    if lines[first].lstrip().startswith("%%"):
        name = lines[first].lstrip()[2:].split() or [""]
        foreign = name[0] not in _RUN_PYTHON
    indented = lines[first][:1] in (" ", "\t")
    while True:
        try:
            return None if foreign else _tree(lines, indented)
        except SyntaxError as error:
            if not _take_out(lines, error.lineno):
                raise


def _tree(lines: list[str], indented: bool) -> ast.Module:
    """Return the tree of these lines. IPython takes the indent of a whole cell off."""
    if not indented:
        return ast.parse("\n".join(lines))
    try:
        tree = ast.parse("\n".join(["if 1:", *lines]))
    except SyntaxError as error:
        error.lineno = (error.lineno or 1) - 1
        raise
    ast.increment_lineno(tree, -1)
    first, *others = tree.body
    if others or not isinstance(first, ast.If):
        raise SyntaxError("unindent does not match the cell's indent")
    return ast.Module(first.body, [])


def _take_out(lines: list[str], number: int | None) -> bool:
    """Blank the magic at or shortly before a line. Return whether there was one."""
    for index in range(min(number or 1, len(lines)) - 1, -1, -1):
        found = _MAGIC.match(lines[index])
        if found:
            _blank(lines, index, found)
            return True
        if not lines[index].rstrip().endswith("\\"):
            break
    # An error further down may come from an earlier magic.
    for index, line in enumerate(lines):
        found = _MAGIC.match(line)
        if found and line.lstrip()[0] in "%!?":
            _blank(lines, index, found)
            return True
    return False


def _blank(lines: list[str], index: int, found: re.Match[str]) -> None:
    """Take out a magic, with the lines that a backslash adds to it."""
    last = index
    while lines[last].rstrip().endswith("\\") and last + 1 < len(lines):
        last += 1
    lines[index + 1 : last + 1] = [""] * (last - index)
    does = f"{found['target']} = None" if found["target"] else "pass"
    lines[index] = found["indent"] + does


# --- New sources for the cells of a notebook. Its other bytes stay.

_SCALAR = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\s,\]}]+')


class Node(NamedTuple):
    """A JSON value, and where it stands in the text."""

    value: Any  # dict of nodes, list of nodes, or what the scalar is
    start: int
    end: int


def scan(text: str, start: int = 0) -> Node:
    """Return the tree of a JSON text that `json.loads` takes, with places."""
    start = _skip(text, start)
    if text[start] not in "{[":
        scalar = _SCALAR.match(text, start)
        end = scalar.end() if scalar else start
        return Node(json.loads(text[start:end]), start, end)
    members: dict[str, Node] = {}
    items: list[Node] = []
    place = _skip(text, start + 1)
    while text[place] not in "}]":
        item = scan(text, place)
        if text[start] == "{":
            key, item = item, scan(text, _skip(text, item.end) + 1)  # behind the colon
            members[key.value] = item
        items.append(item)
        place = _skip(text, item.end)
        place = _skip(text, place + 1) if text[place] == "," else place
    return Node(members if text[start] == "{" else items, start, place + 1)


def _skip(text: str, place: int) -> int:
    while text[place] in " \t\r\n":
        place += 1
    return place


def with_sources(text: str, sources: dict[int | None, str]) -> str:
    """Return the JSON of a notebook with new sources for some of its cells."""
    cells = scan(text).value["cells"].value
    done, place = [], 0
    for number in sorted(filter(None, sources)):
        node = cells[number - 1].value["source"]
        done += [text[place : node.start], _encoded(text, node, sources[number])]
        place = node.end
    return "".join([*done, text[place:]])


def _encoded(text: str, node: Node, source: str) -> str:
    # A notebook escapes what is not ASCII, or does not.
    escapes = text.isascii()
    if isinstance(node.value, str):
        return json.dumps(source, ensure_ascii=escapes)
    items = node.value
    raw = [text[item.start : item.end] for item in items]
    new = re.findall(r"[^\n]*\n|[^\n]+", source)
    old = [item.value for item in items]
    done = []
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            done += raw[first:last]
        else:
            done += [json.dumps(line, ensure_ascii=escapes) for line in new[start:end]]
    head = text[node.start : items[0].start]
    between = f",{head[1:]}"
    if len(items) > 1:
        between = text[items[0].end : items[1].start]
    return head + between.join(done) + text[items[-1].end : node.end]
