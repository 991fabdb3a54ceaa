"""Examine notebooks: join the cells into one program, and split the result into cells again.

Cells share their variables, so they are examined as one program. Lines that only IPython
understands are hidden in comments before parsing, and restored afterwards. Apart from the cells
that change, all bytes of the file stay the same.
"""

import codecs
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tf_lso.migrate import engine
from tf_lso.migrate.engine import Options
from tf_lso.migrate.findings import Examined, Finding, Unreadable, unreadable

# After these cell magics, the rest of the cell still runs as Python in the notebook.
_RUN_PYTHON = {"time", "timeit", "capture", "prun", "debug", "memit", "mprun", "lprun"}
# Matches magics, shell commands, requests for help, and assignments such as `files = !ls`.
_MAGIC = re.compile(
    r"""^(?P<indent>\s*)(?:
        (?:%[%a-zA-Z] | [!?]) .*
      | [\w.]+ (?:\[[^\]]*\])? \?\??\s*
      | (?:pip|conda|mamba|cd|ls|ll|cat|cp|mv|rm|mkdir|rmdir|run|load|env|time|timeit
          |matplotlib|man|more|less) [ \t]+ [^=\s(\[,] .*  # magics that work without `%`
      | (?P<target>[A-Za-z_][\w, ]*?) \s* = \s* [%!] .*
    )$""",
    re.VERBOSE,
)
_HIDDEN = "{indent}{statement}  # tf-lso line: {line}"
_RESTORED = re.compile(r"^.*  # tf-lso line: (.*)$", re.MULTILINE)
_BETWEEN = "\n...  # tf-lso cell\n"
_LAYOUT = "The notebook's JSON is not laid out as Jupyter or Colab writes it."


class Cell(NamedTuple):
    """A notebook cell that contains Python code."""

    number: int  # the number of the cell in the notebook, from 1
    text: str
    python: str  # the source code that Python can parse


def cells(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield (number, source) for each code cell. Raise ValueError if `data` is no notebook."""
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


def python(text: str) -> str:
    """Return the source code of a cell in a form that Python can parse, or raise SyntaxError.

    The result is "" if the cell is blank or not Python. Lines are hidden only if Python cannot
    parse the cell. So a line of valid code that begins with the operator `%` stays unchanged.
    """
    stripped = text.lstrip()
    magic = re.match(r"%%\s*(\S*)", stripped)
    if not stripped or (magic and magic[1] not in _RUN_PYTHON):
        return ""
    try:
        engine.check_syntax(text)
        return text
    except SyntaxError:
        hidden = _hidden(text)
    engine.check_syntax(hidden)
    return hidden


def _hidden(text: str) -> str:
    lines = text.split("\n")
    indent = statement = ""
    for number, line in enumerate(lines):
        if found := _MAGIC.match(line):
            indent, target = found["indent"], found["target"]
            statement = f"{target} = None" if target else "pass"
        if statement:
            lines[number] = _HIDDEN.format(
                indent=indent, statement=statement, line=line
            )
        # A line that ends with a backslash continues on the next line.
        statement = "pass" if statement and line.endswith("\\") else ""
    return "\n".join(lines)


def examine(data: bytes, options: Options) -> Examined:
    """Examine the bytes of a notebook, as `engine.examine` does for a program."""
    parsed, failed = list[Cell](), list[Unreadable]()
    for number, text in cells(data):
        try:
            if code := python(text):
                parsed.append(Cell(number, text, code))
        except engine.ERRORS as error:
            # Many notebooks have cells that are not Python, such as "your code ...".
            if engine.may_have_old_names(text):
                failed.append(unreadable(error, number))
    result = engine.examine(_BETWEEN.join(cell.python for cell in parsed), options)
    for found in result.findings:
        _place(found, parsed)
    texts = [_RESTORED.sub(r"\1", text) for text in result.new.split(_BETWEEN)]
    new = {c.number: text for c, text in zip(parsed, texts) if text != c.text}
    result.old, result.new, result.unreadable = data, data, failed
    try:
        result.new = _encoded(data, new) if new else data
    except ValueError as error:
        for found in result.findings:
            if found.fix:
                found.leave(str(error))
    return result


def _place(found: Finding, parsed: list[Cell]) -> None:
    """Change the position of a finding from the joined program to its cell."""
    start = 1
    for cell in parsed:
        end = start + cell.python.count("\n") + _BETWEEN.count("\n")
        if found.line < end:
            break
        start = end
    found.cell = cell.number
    found.line -= start - 1
    found.code = cell.text.split("\n")[found.line - 1].strip()


def _encoded(data: bytes, sources: dict[int, str]) -> bytes:
    """Return `data` with new sources. Raise ValueError if other bytes would change."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    text = data.removeprefix(mark).decode()
    newline = "\r\n" if "\r\n" in text else "\n"
    plain = text.replace("\r\n", "\n")
    end = plain[len(plain.rstrip()) :]
    notebook, found = json.loads(text), re.match(r"\{\n([ \t]*)", plain)
    indent = found[1] if found else None
    # Try the layouts of Jupyter, Colab and Kaggle until one reproduces the old file.
    for is_ascii, separators in itertools.product((True, False), (None, (",", ":"))):
        encoder = json.JSONEncoder(
            ensure_ascii=is_ascii, indent=indent, separators=separators
        )
        if encoder.encode(notebook) + end == plain:
            for number, source in sources.items():
                _set_source(notebook["cells"][number - 1], source)
            new = encoder.encode(notebook) + end
            return mark + new.replace("\n", newline).encode()
    raise ValueError(_LAYOUT)


def _set_source(cell: dict[str, Any], source: str) -> None:
    is_list = isinstance(cell["source"], list)
    cell["source"] = re.findall(r"[^\n]*\n|[^\n]+", source) if is_list else source
