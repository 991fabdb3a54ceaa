"""Reading a file into trees, or into the reason why it cannot be read."""

import ast
import io
import json
import re
import tokenize

from tf_lso.check import lookup, notebooks
from tf_lso.check.findings import Finding, Unreadable
from tf_lso.check.rules import uses
from tf_lso.check.scopes import Program
from tf_lso.check.walk import walk

_TOO_DEEP = "nested too deeply for Python's parser"
_PYTHON_2 = re.compile(
    r"Missing parentheses in call to '(print|exec)'"
    r"|multiple exception types must be parenthesized"
    r"|leading zeros in decimal integer"
    r"|invalid octal"
)
_PYTHON_2_LINE = re.compile(
    r"^\s*(print\s+[^=(\s].*|exec\s+\S.*|raise\s+\w+\s*,.*|except\s+\w+\s*,\s*\w+\s*:.*)$"
    r"|<>|\b0[0-7]+\b"
)


def check(path: str) -> tuple[list[Finding], list[Unreadable]]:
    """Return what is found in one file, and what of it cannot be read.

    Every file is parsed, so that one that is no Python is told of; only those with an
    old name somewhere in their bytes are looked into.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return [], [Unreadable(path, None, None, f"cannot be opened: {reason}")]
    read = _notebook if path.lower().endswith(".ipynb") else _script
    try:
        return read(path, data)
    except (RecursionError, MemoryError):
        return [], [Unreadable(path, None, None, _TOO_DEEP)]


def _script(path, data):
    try:
        tree = _parsed(data, path)
    except (SyntaxError, ValueError) as error:
        return [], [unreadable_source(path, None, error, data)]
    if not any(token in data for token in lookup.TOKENS):
        return [], []
    program = Program()
    walk(program, tree)
    found = _uses(program)
    lines = {None: _lines(data)} if found else {}
    return _findings(path, found, lines), []


def _uses(program):
    program.finish()
    try:
        return uses(program)
    finally:
        program.release()


def _parsed(data, path):
    # In place of ast.parse, which would inherit nothing but is slower to call.
    return compile(data, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)


def _notebook(path, data):
    unreadable = []
    program = Program()
    lines = {}
    try:
        for number, source in notebooks.cells(data):
            try:
                tree = notebooks.parse(source)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                unreadable.append(
                    unreadable_source(path, number, error, source.encode())
                )
                continue
            if tree is not None:
                program.cell = number
                walk(program, tree)
                lines[number] = source
    except (ValueError, RecursionError) as error:
        return [], [unreadable_source(path, None, error, data)]
    if not any(token in data for token in lookup.TOKENS):
        return [], unreadable
    lines = {number: _split(source) for number, source in lines.items()}
    return _findings(path, _uses(program), lines), unreadable


def unreadable_source(
    path: str, cell: int | None, error: BaseException, data: bytes
) -> Unreadable:
    """Return why a source cannot be read, with the line where there is one."""
    if isinstance(error, (RecursionError, MemoryError)):
        return Unreadable(path, cell, None, _TOO_DEEP)
    if isinstance(error, json.JSONDecodeError):
        reason = f"not the JSON of a notebook: {error.msg}"
        return Unreadable(path, cell, error.lineno, reason)
    if isinstance(error, UnicodeDecodeError):
        return Unreadable(path, cell, None, f"not text in {error.encoding}")
    if not isinstance(error, SyntaxError):
        return Unreadable(path, cell, None, str(error))
    reason = f"does not parse: {error.msg}"
    if _is_python_2(error, data):
        reason += " (this looks like Python 2: convert it to Python 3 first)"
    return Unreadable(path, cell, error.lineno, reason)


def _is_python_2(error, data):
    if _PYTHON_2.search(error.msg or ""):
        return True
    lines = _lines(data)
    number = (error.lineno or 0) - 1
    return 0 <= number < len(lines) and bool(_PYTHON_2_LINE.search(lines[number]))


def _lines(data):
    """Returns the lines as the parser counts them, decoded as it decodes them."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8"
    return _split(data.decode(encoding, "replace"))


def _split(text):
    return re.split(r"\r\n|\r|\n", text)


def _findings(path, found, lines):
    findings = []
    for use in found:
        line = lines[use.cell][use.line - 1]
        before = line.encode("utf-8", "surrogatepass")[: use.offset]
        findings.append(
            Finding(
                path,
                use.cell,
                use.line,
                len(before.decode("utf-8", "replace")) + 1,
                use.kind,
                line.strip(),
                use.guarded,
                use.verdict,
            )
        )
    return findings
