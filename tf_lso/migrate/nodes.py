"""Define small functions that read nodes of LibCST's syntax tree."""

from collections.abc import Mapping
from typing import Any

import libcst as cst
import libcst.matchers as m
from libcst.helpers import get_full_name_for_node


def nodes_by_type(module: cst.Module) -> dict[type[cst.CSTNode], list[Any]]:
    """Return {type of node: its nodes in the order of the program}."""
    nodes: dict[type[cst.CSTNode], list[Any]] = {}
    for node in m.findall(module, m.MatchIfTrue(lambda node: True)):
        nodes.setdefault(type(node), []).append(node)
    return nodes


def bound_name(alias: cst.ImportAlias) -> str:
    """Return the name that an import binds in the program: "a" for `import a.b`."""
    name = alias.evaluated_alias or alias.evaluated_name
    return name.partition(".")[0]


def root(node: cst.CSTNode) -> cst.CSTNode:
    """Return the expression before the first dot of a chain of attributes: `a` for `a.b.c`."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node


def attributes(node: cst.CSTNode) -> list[str]:
    """Return the names after the first dot of a chain of attributes: ["b", "c"] for `a.b.c`."""
    names: list[str] = []
    while isinstance(node, cst.Attribute):
        names.insert(0, node.attr.value)
        node = node.value
    return names


def imported_module(node: cst.ImportFrom) -> str:
    """Return the module of a `from` import, including the dots of a relative import."""
    module = get_full_name_for_node(node.module) if node.module else ""
    return "." * len(node.relative) + (module or "")


def imported_names(node: cst.ImportFrom) -> list[cst.ImportAlias]:
    """Return the names of a `from` import, or [] for a star import."""
    return [] if isinstance(node.names, cst.ImportStar) else list(node.names)


def literal(node: cst.CSTNode | None) -> str | None:
    """Return the text of a string literal, or None for any other node."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    return None


def keywords(call: cst.Call) -> Mapping[str, cst.Arg]:
    return {arg.keyword.value: arg for arg in call.args if arg.keyword}


def positional(call: cst.Call) -> list[cst.BaseExpression] | None:
    """Return the positional arguments of a call, or None if the call has `*arguments`."""
    if m.findall(call, m.Arg(star="*")):
        return None
    return [arg.value for arg in call.args if not arg.keyword and not arg.star]
