"""Add to a program the import of tf_lso, or the line that installs tf_lso."""

import sys
from typing import Any

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate.nodes import imported_module

_DOCSTRING = m.SimpleStatementLine(
    body=[m.Expr(m.SimpleString() | m.ConcatenatedString()), m.ZeroOrMore()]
)
# In code from notebooks, `pass` may stand for a line that only IPython understands.
_IMPORTS = m.SimpleStatementLine(
    body=[m.AtLeastN(m.Import() | m.ImportFrom() | m.Pass(), n=1)]
)
_IMPORT = "import tf_lso\n"


def line(like: str) -> str:
    """Return the line that installs tf_lso. `like` is the value of `--like`, or ""."""
    return f'tf_lso.install(like="{like}")' if like else "import tf_lso.installed"


def with_import(module: cst.Module) -> cst.Module:
    """Return the tree with `import tf_lso` after the program's first block of imports.

    LibCST's AddImportsVisitor would not add it to a program that imports tf_lso only below
    `if TYPE_CHECKING`.
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
    """Return the tree with the line that installs tf_lso before imports of TensorFlow."""
    body = list(module.body)
    index = 0
    while index < len(body) and _may_precede(body[index]):
        index += 1
    # Without `noqa`, linters would remove the import, because its name is not used.
    texts = [_IMPORT, line(like)] if like else [f"{line('')}  # noqa: F401"]
    added = [cst.parse_statement(t, module.config_for_parsing) for t in texts]
    following: Any = body[index] if index < len(body) else None
    is_among_imports = not like and m.matches(following, _IMPORTS)
    if is_among_imports and index:
        blank = [e for e in following.leading_lines if e.comment is None]
        lines = [e for e in following.leading_lines if e.comment]
        added[0] = added[0].with_changes(leading_lines=blank)
        body[index] = following.with_changes(leading_lines=lines)
    elif following and not is_among_imports:
        body[index] = _apart(following)
    if index and not is_among_imports:
        added[0] = _apart(added[0])
    added[1:] = map(_apart, added[1:])
    return module.with_changes(body=[*body[:index], *added, *body[index:]])


def _may_precede(statement: cst.CSTNode) -> bool:
    """Return whether a statement imports nothing but standard modules."""
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
