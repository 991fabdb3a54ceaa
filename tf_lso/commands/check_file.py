"""One file: read, and looked through for uses of the old API."""

from tf_lso.names.targets import Target
from tf_lso.source import lookup, notebooks
from tf_lso.source import reading as sources
from tf_lso.source.findings import Finding, Use
from tf_lso.source.reading import Unreadable
from tf_lso.source.texts import Text
from tf_lso.source.uses import uses


def check(path: str, target: Target) -> tuple[list[Finding], list[Unreadable]]:
    """Return what is found in one file, and what of it cannot be read.

    Every file is parsed, so that one that is not Python is reported. Only files whose
    bytes contain an old name are analyzed.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        why = f"cannot be opened: {sources.reason(error)}"
        return [], [Unreadable(path, None, None, why)]
    is_notebook = path.lower().endswith(".ipynb")
    try:
        cells = notebooks.cells(data) if is_notebook else [(None, data)]
        read = sources.parsed(path, cells)
        if not any(token in data for token in lookup.TOKENS):
            return [], read.failed
        with read.program() as program:
            found = uses(program, target)
    except sources.ERRORS as error:
        return [], [sources.unreadable(path, error, data)]
    return [_finding(path, use, read.texts[use.cell]) for use in found], read.failed


def _finding(path: str, use: Use, text: Text) -> Finding:
    cell, line, offset, kind, guarded, verdict = use
    column = text.offset(line, offset) - text.starts[line - 1] + 1
    return Finding(path, cell, line, column, kind, text.line(line), guarded, verdict)
