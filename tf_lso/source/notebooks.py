"""The Python of a notebook's cells, without what is not Python."""

import ast
import json
import re
from collections.abc import Iterator

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
        sheets = notebook.get("worksheets") or [notebook]
        listed = [cell for sheet in sheets for cell in sheet["cells"]]
        kernel = notebook.get("metadata", {})
        language = kernel.get("kernelspec", {}).get("language")
        language = kernel.get("language_info", {}).get("name", language)
        if language and not language.lower().startswith(("python", "ipython")):
            return
        for number, cell in enumerate(listed, 1):
            if cell["cell_type"] == "code":
                source = cell.get("source", cell.get("input", ""))
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
