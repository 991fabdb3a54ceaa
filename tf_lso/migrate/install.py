"""Add `import tf_lso` and `tf_lso.install()` to a program that needs them."""

import sys
from typing import Any

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate.nodes import imported_module

_MAIN = m.If(
    test=m.Comparison(m.Name("__name__"), [m.ComparisonTarget(m.Equal())]),
    body=m.IndentedBlock(),
    orelse=None,
)
_DOCSTRING = m.SimpleStatementLine(
    body=[m.Expr(m.SimpleString() | m.ConcatenatedString()), m.ZeroOrMore()]
)
# The module `notebooks` replaces each line that only IPython understands by `pass`.
_IMPORTS = m.SimpleStatementLine(
    body=[m.AtLeastN(m.Import() | m.ImportFrom() | m.Pass(), n=1)]
)
_IMPORT = "import tf_lso\n"


def with_import(module: cst.Module) -> cst.Module:
    """Return the tree with `import tf_lso` after the program's first block of imports.

    This function does not use LibCST's AddImportsVisitor. That class would add no import to a
    program that imports tf_lso only below `if TYPE_CHECKING`.
    """
    index = int(m.matches(module.body[0], _DOCSTRING))
    while index < len(module.body) and m.matches(module.body[index], _IMPORTS):
        if module.code_for_node(module.body[index]).strip() == _IMPORT.strip():
            return module
        index += 1
    body = list(module.body)
    body.insert(index, cst.parse_statement(_IMPORT, module.config_for_parsing))
    return module.with_changes(body=body)


def with_install(module: cst.Module, like: str) -> cst.Module:
    """Return the tree with `import tf_lso` and a call of `tf_lso.install()`.

    The call comes before the first import of a module that is not in the standard library,
    since that module may import TensorFlow. If no code runs before the block
    `if __name__ == "__main__":`, the call is the first line of this block instead.

    Args:
      module: the tree.
      like: the argument `like` of `install`, or "" for a call without arguments. With `like`,
        the call always comes before the imports.
    """
    argument = f'like="{like}"' if like else ""
    call = cst.parse_statement(
        f"tf_lso.install({argument})\n", module.config_for_parsing
    )
    body = list(module.body)
    last: Any = body[-1]
    is_main = m.matches(last, _MAIN) and "__main__" in module.code_for_node(last.test)
    if is_main and not like and not any(map(_may_run, body[:-1])):
        body[-1] = last.with_deep_changes(last.body, body=[call, *last.body.body])
        return with_import(module.with_changes(body=body))
    index = 0
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
    """Return whether a statement may run code that needs `install()`.

    Imports, docstrings and most function definitions run no such code. A function definition
    may run it in its decorators or default values.
    """
    if isinstance(statement, cst.FunctionDef):
        runs = m.Call() | m.IfExp() | m.BooleanOperation()
        return bool(statement.decorators or m.findall(statement.params, runs))
    return not m.matches(statement, _IMPORTS | _DOCSTRING)


def _may_precede(statement: cst.CSTNode) -> bool:
    """Return whether a statement may come before the call of `install()`.

    Such a statement imports nothing but standard modules. An example is a statement that sets
    an environment variable, which TensorFlow reads when it is imported.
    """
    modules = set[str]()
    for node in m.findall(statement, m.Import() | m.ImportFrom()):
        if isinstance(node, cst.ImportFrom):
            modules.add(imported_module(node))
        elif isinstance(node, cst.Import):
            modules.update(alias.evaluated_name for alias in node.names)
    return {name.partition(".")[0] for name in modules} <= sys.stdlib_module_names


def _apart(statement: Any) -> Any:
    """Return the statement with an empty line above it."""
    lines = statement.leading_lines
    if lines and lines[0].comment is None:
        return statement
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False), *lines])
