"""Small questions about single nodes of a syntax tree."""

import ast
from typing import Any

# Functions whose calls we look into, unless the program gives the name another meaning.
GETATTR, HASATTR = "builtins.getattr", "builtins.hasattr"
BUILTIN_IMPORT = "builtins.__import__"
IMPORTS = (BUILTIN_IMPORT, "importlib.import_module")
IMPORT_STATEMENTS = (ast.Import, ast.ImportFrom)
HELPERS = {"getattr": GETATTR, "hasattr": HASATTR, "__import__": BUILTIN_IMPORT}


def chain_of(node: ast.AST) -> list[ast.Attribute]:
    """Return the attribute nodes of a chain, from its base outwards."""
    chain: list[ast.Attribute] = []
    while isinstance(node, ast.Attribute):
        chain.append(node)
        node = node.value
    return chain[::-1]


def last_name(node: Any) -> str:
    """Return `c` of `c` and of `a.b.c`, or ""."""
    name: str = getattr(node, "attr", getattr(node, "id", ""))
    return name


def literal(node: ast.AST | None) -> str | None:
    """Return the text that an expression is, or None."""
    value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def listed(node: Any) -> list[Any]:
    """Return the elements of a tuple or list, or the one expression."""
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]


def imported_paths(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the dotted path of each name of an import statement."""
    above = ""
    if isinstance(node, ast.ImportFrom):
        above = "." * node.level + f"{node.module or ''}."
    return [above + alias.name for alias in node.names]
