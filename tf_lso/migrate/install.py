"""Adds `import tf_lso`, and `tf_lso.install()` to a program that needs it."""

from collections.abc import Sequence
from typing import Any

import libcst as cst
import libcst.matchers as m

_MAIN = m.If(
    test=m.Comparison(
        left=m.Name("__name__"),
        comparisons=[m.ComparisonTarget(m.Equal(), m.SimpleString())],
    )
)
# A line of a notebook that only IPython understands, as `notebooks` hides it.
MAGIC = "tf_lso_magic_"
_MAGIC = m.Expr(m.Name(m.MatchIfTrue(lambda name: name.startswith(MAGIC))))
_IMPORTS = m.SimpleStatementLine(body=[m.OneOf(m.Import(), m.ImportFrom(), _MAGIC)])
_IMPORT = "import tf_lso\n"
_DOCSTRING = m.SimpleStatementLine(body=[m.Expr(m.SimpleString()), m.ZeroOrMore()])
_FUTURE = m.SimpleStatementLine(
    body=[m.OneOf(m.ImportFrom(module=m.Name("__future__")), _MAGIC), m.ZeroOrMore()]
)


def with_import(module: cst.Module) -> cst.Module:
    """Return the tree with `import tf_lso` behind the first block of imports.

    LibCST's AddImportsVisitor puts it there, too, but takes a third of the whole time.
    """
    place = _first(module.body)
    while place < len(module.body) and m.matches(module.body[place], _IMPORTS):
        place += 1
    body = list(module.body)
    body.insert(place, cst.parse_statement(_IMPORT, module.config_for_parsing))
    return module.with_changes(body=body)


def has_main_guard(module: cst.Module) -> bool:
    """Whether a program has `if __name__ == "__main__":`."""
    return any(m.matches(line, _MAIN) for line in module.body)


def with_install(module: cst.Module, like: str, late: bool) -> cst.Module:
    """Return the tree with a call of `install()`.

    It stands before the first statement, behind a docstring and imports of `__future__`;
    or if it may be `late`, at the top of the main guard.
    """
    given = f'like="{like}"' if like else ""
    call = cst.parse_statement(f"tf_lso.install({given})\n", module.config_for_parsing)
    body = list(module.body)
    if late:
        guard = next(i for i, line in enumerate(body) if m.matches(line, _MAIN))
        body[guard] = _with_first(body[guard], call)
        return with_import(module.with_changes(body=body))
    place = _first(body)
    statement = cst.parse_statement(_IMPORT, module.config_for_parsing)
    if place:
        statement = _apart(statement)
    if place < len(body):
        body[place] = _apart(body[place])
    added = [statement, _apart(call)]
    return module.with_changes(body=[*body[:place], *added, *body[place:]])


def _with_first(guard: Any, call: Any) -> Any:
    """Return a main guard whose body begins with a call."""
    block = guard.body
    if isinstance(block, cst.SimpleStatementSuite):
        lines = [call.body[0], *block.body]
        return guard.with_changes(body=block.with_changes(body=lines))
    return guard.with_changes(body=block.with_changes(body=[call, *block.body]))


def _first(body: Sequence[Any]) -> int:
    """Return the index of the first statement that others may precede."""
    place = 0
    while place < len(body) and (
        m.matches(body[place], _FUTURE)
        or (not place and m.matches(body[place], _DOCSTRING))
    ):
        place += 1
    return place


def _apart(statement: Any) -> Any:
    """Return a statement with an empty line before it."""
    lines = statement.leading_lines
    if lines and lines[0].comment is None:
        return statement
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False), *lines])
