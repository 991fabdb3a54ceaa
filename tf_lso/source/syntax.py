"""Small questions about single nodes of a syntax tree."""

import ast
import importlib.util

# Functions whose calls we look into, unless the program gives the name another meaning.
GETATTR, HASATTR = "builtins.getattr", "builtins.hasattr"
IMPORTS = ("builtins.__import__", "importlib.import_module")
HELPERS = {"getattr": GETATTR, "hasattr": HASATTR, "__import__": IMPORTS[0]}


def chain_of(node: ast.AST) -> list[ast.Attribute]:
    """Return the attribute nodes of a chain, from its base outwards."""
    chain: list[ast.Attribute] = []
    while isinstance(node, ast.Attribute):
        chain.append(node)
        node = node.value
    return chain[::-1]


def last_name(node: ast.AST) -> str:
    """Return `c` of `c` and of `a.b.c`, or ""."""
    name: str = getattr(node, "attr", getattr(node, "id", ""))
    return name


def literal(node: ast.AST) -> str | None:
    """Return the text that an expression is, or None."""
    value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def imported_paths(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the dotted path of each name of an import statement."""
    above = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return [above + alias.name for alias in node.names]


def imported(call: ast.Call, function: str, whole: bool = False) -> str:
    """Return the path of the module that a call of one of IMPORTS returns, or "".

    With `whole`: of the one that it names. `__import__` returns the first part of that.
    """
    arguments = [*call.args, *(k.value for k in call.keywords if k.arg == "package")]
    texts = [str(a.value) for a in arguments if isinstance(a, ast.Constant)]
    if not arguments or not isinstance(arguments[0], ast.Constant):
        return ""
    path = texts[0]
    if function == IMPORTS[0]:
        fromlist = len(call.args) > 3 or any(k.arg == "fromlist" for k in call.keywords)
        return path if whole or fromlist else path.partition(".")[0]
    if path.startswith(".") and len(texts) > 1:
        try:
            return importlib.util.resolve_name(path, texts[1])
        except (ImportError, TypeError, ValueError):
            return ""
    return path
