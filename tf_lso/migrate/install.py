"""Add `import tf_lso` and `tf_lso.install()` to a program that needs them."""

import sys
from collections.abc import Sequence
from typing import Any

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate.nodes import imported_module

# The module `notebooks` replaces each line that only IPython understands by `pass`.
_MAGIC = m.Pass()
_IS_MAIN = m.SimpleString(m.MatchIfTrue(lambda text: text[1:-1] == "__main__"))
_MAIN = m.If(
    test=m.Comparison(
        left=m.Name("__name__"),
        comparisons=[m.ComparisonTarget(m.Equal(), _IS_MAIN)],
    ),
    orelse=None,
)
_DOCSTRING = m.SimpleStatementLine(
    body=[m.Expr(m.SimpleString() | m.ConcatenatedString()), m.ZeroOrMore()]
)
_FUTURE = m.SimpleStatementLine(
    body=[m.OneOf(m.ImportFrom(module=m.Name("__future__")), _MAGIC), m.ZeroOrMore()]
)
_IMPORTS = m.SimpleStatementLine(body=[m.OneOf(m.Import(), m.ImportFrom(), _MAGIC)])
_ENVIRON = m.Attribute(m.Name("os"), m.Name("environ"))
# Matches a line that sets an environment variable. Such a line must stay before the import of
# TensorFlow, which may read the variable.
_SETTING = m.SimpleStatementLine(
    body=[
        m.Assign(targets=[m.AssignTarget(m.Subscript(_ENVIRON))])
        | m.Expr(m.Call(m.Attribute(_ENVIRON)))
    ]
)
_IMPORT = "import tf_lso\n"


def with_import(module: cst.Module) -> cst.Module:
    """Return the tree with `import tf_lso` after the program's first block of imports.

    This function does not use LibCST's AddImportsVisitor. That class would add no import to a
    program that imports tf_lso only below `if TYPE_CHECKING`.
    """
    index = _first(module.body)
    while index < len(module.body) and m.matches(module.body[index], _IMPORTS):
        if module.code_for_node(module.body[index]).strip() == _IMPORT.strip():
            return module
        index += 1
    body = list(module.body)
    body.insert(index, cst.parse_statement(_IMPORT, module.config_for_parsing))
    return module.with_changes(body=body)


def with_install(module: cst.Module, like: str, late: bool) -> cst.Module:
    """Return the tree with `import tf_lso` and a call of `tf_lso.install()`.

    The call comes before the import of TensorFlow. Only imports of the standard library and
    lines that set environment variables come before the call. If `late` is True and no code
    runs before the block `if __name__ == "__main__":`, the call is the first line of this
    block instead.

    Args:
      module: the tree.
      like: the argument `like` of `install`, or "" for a call without arguments.
      late: bool, whether all uses that need the call are in the bodies of functions.
    """
    argument = f'like="{like}"' if like else ""
    call = cst.parse_statement(
        f"tf_lso.install({argument})\n", module.config_for_parsing
    )
    body = list(module.body)
    if late and m.matches(body[-1], _MAIN) and not any(map(_may_run, body[:-1])):
        body[-1] = _with_first(body[-1], call)
        return with_import(module.with_changes(body=body))
    index = _first(body)
    while index < len(body) and _may_precede(body[index]):
        index += 1
    statement = cst.parse_statement(_IMPORT, module.config_for_parsing)
    if index:
        statement = _apart(statement)
    if index < len(body):
        body[index] = _apart(body[index])
    added = [statement, _apart(call)]
    return module.with_changes(body=[*body[:index], *added, *body[index:]])


def _may_run(statement: cst.CSTNode) -> bool:
    """Return whether a statement may run the program's own functions.

    Imports, docstrings and most function definitions do not run such functions. A function
    definition may run them in its decorators or default values.
    """
    if isinstance(statement, cst.FunctionDef):
        return bool(statement.decorators or m.findall(statement.params, m.Call()))
    return not m.matches(statement, _IMPORTS | _DOCSTRING)


def _with_first(guard: Any, call: Any) -> Any:
    """Return the block `if __name__ == "__main__":` with a call as its first line."""
    block = guard.body
    if isinstance(block, cst.SimpleStatementSuite):
        call = call.body[0]
    return guard.with_changes(body=block.with_changes(body=[call, *block.body]))


def _first(body: Sequence[Any]) -> int:
    """Return the index in `body` at which the first new statement may be inserted.

    New statements must come after the docstring, the `__future__` imports and the magics of a
    notebook.
    """
    index = 0
    while index < len(body) and (
        m.matches(body[index], _FUTURE)
        or (not index and m.matches(body[index], _DOCSTRING))
    ):
        index += 1
    return index


def _may_precede(line: cst.CSTNode) -> bool:
    """Return whether a line may come before the call of `install()`.

    Such a line imports only standard modules, or sets an environment variable.
    """
    modules = set[str]()
    for node in m.findall(line, m.Import() | m.ImportFrom()):
        if isinstance(node, cst.ImportFrom):
            modules.add(imported_module(node))
        elif isinstance(node, cst.Import):
            modules.update(alias.evaluated_name for alias in node.names)
    known = {name.partition(".")[0] for name in modules} <= sys.stdlib_module_names
    return m.matches(line, _SETTING) or (known and m.matches(line, _IMPORTS))


def _apart(statement: Any) -> Any:
    """Return the statement with an empty line above it."""
    lines = statement.leading_lines
    if lines and lines[0].comment is None:
        return statement
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False), *lines])
