"""Adds `import tf_lso`, and `tf_lso.install()` to a program that needs it."""

import sys
from collections.abc import Sequence
from typing import Any

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate.nodes import imported_module

_IS_MAIN = m.SimpleString(m.MatchIfTrue(lambda text: text[1:-1] == "__main__"))
_MAIN = m.If(
    test=m.Comparison(
        left=m.Name("__name__"),
        comparisons=[m.ComparisonTarget(m.Equal(), _IS_MAIN)],
    )
)
# What calls nothing of the program: a definition, an import or a constant.
_DEFINES = m.SimpleStatementLine(
    body=[
        m.OneOf(
            m.Import(),
            m.ImportFrom(),
            m.Expr(m.SimpleString() | m.ConcatenatedString()),
            m.Assign(),
            m.AnnAssign(),
            m.Pass(),
        )
    ]
)
_KNOWN = m.Decorator(
    m.OneOf(
        *map(m.Name, ("property", "staticmethod", "classmethod")),
        m.Attribute(attr=m.Name("setter")),
        m.Attribute(m.Name("tf"), m.Name("function")),
    )
)
# A line of a notebook that only IPython understands, as `notebooks` hides it.
MAGIC = "tf_lso_magic_"
_MAGIC = m.Expr(m.Name(m.MatchIfTrue(lambda name: name.startswith(MAGIC))))
_IMPORTS = m.SimpleStatementLine(body=[m.OneOf(m.Import(), m.ImportFrom(), _MAGIC)])
_IMPORT = "import tf_lso\n"
_DOCSTRING = m.SimpleStatementLine(
    body=[m.Expr(m.SimpleString() | m.ConcatenatedString()), m.ZeroOrMore()]
)
_ENVIRON = m.Attribute(m.Name("os"), m.Name("environ"))
_SETTING = m.Assign(targets=[m.AssignTarget(m.Subscript(_ENVIRON))]) | m.Expr(
    m.Call(m.Attribute(_ENVIRON) | m.Attribute(m.Name("os"), m.Name("putenv")))
)
_ENVIRONMENT = m.SimpleStatementLine(body=[_SETTING])
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


def is_main(node: cst.CSTNode) -> bool:
    """Whether a node is `if __name__ == "__main__":`."""
    return m.matches(node, _MAIN)


def may_be_late(module: cst.Module) -> bool:
    """Whether all that a program runs stands in its main guard."""
    runs = [line for line in module.body if not _only_defines(line)]
    return len(runs) == 1 and is_main(runs[0]) and not getattr(runs[0], "orelse", None)


def _only_defines(statement: cst.CSTNode) -> bool:
    """Whether a statement calls nothing; the bodies of functions do not run."""
    if isinstance(statement, cst.FunctionDef):
        runs: list[cst.CSTNode] = [statement.params, *statement.decorators]
        runs += [statement.returns] if statement.returns else []
        return not any(_calls(node) for node in runs)
    if isinstance(statement, cst.ClassDef):
        runs = [*statement.bases, *statement.keywords, *statement.decorators]
        own = all(_only_defines(line) for line in statement.body.body)
        return own and not any(_calls(node) for node in runs)
    if isinstance(statement, cst.BaseSmallStatement):
        statement = cst.SimpleStatementLine([statement])
    return m.matches(statement, _DEFINES) and not _calls(statement)


def _calls(node: cst.CSTNode) -> bool:
    """Whether an expression calls something, but for decorators that only wrap."""
    if isinstance(node, cst.Decorator):
        return not m.matches(node, _KNOWN)
    return bool(m.findall(node, m.Call()))


def with_install(module: cst.Module, like: str, late: bool) -> cst.Module:
    """Return the tree with a call of `install()`.

    It stands before the first statement, behind a docstring, imports of `__future__` and
    the environment variables that TensorFlow reads when it is imported; or if it may be
    `late`, at the top of the main guard.
    """
    given = f'like="{like}"' if like else ""
    call = cst.parse_statement(f"tf_lso.install({given})\n", module.config_for_parsing)
    body = list(module.body)
    if late:
        guard = next(i for i, line in enumerate(body) if m.matches(line, _MAIN))
        body[guard] = _with_first(body[guard], call)
        return with_import(module.with_changes(body=body))
    place = _behind_environment(body, _first(body))
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


def _behind_environment(body: Sequence[Any], place: int) -> int:
    """Return the index behind what sets environment variables for TensorFlow."""
    for index in range(place, len(body)):
        if m.matches(body[index], _ENVIRONMENT):
            place = index + 1
        elif not _is_of_python(body[index]):
            break
    return place


def _is_of_python(line: cst.CSTNode) -> bool:
    """Whether a statement only imports modules of Python itself."""
    if not m.matches(line, _IMPORTS):
        return False
    modules = m.findall(line, m.Import() | m.ImportFrom())
    names = {
        alias.evaluated_name
        for node in modules
        if isinstance(node, cst.Import)
        for alias in node.names
    }
    names |= {imported_module(n) for n in modules if isinstance(n, cst.ImportFrom)}
    return {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def _apart(statement: Any) -> Any:
    """Return a statement with an empty line before it."""
    lines = statement.leading_lines
    if lines and lines[0].comment is None:
        return statement
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False), *lines])
