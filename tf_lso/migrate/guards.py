"""Find guards, which are conditions and `except` clauses around uses of old names.

A use with a guard is listed but not changed.
"""

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate.program import Program

EXCEPT = "An `except` clause around it decides what runs"
TEST = "A test around it asks for a version or an attribute"
_CAUGHT = {
    *("ImportError", "ModuleNotFoundError", "AttributeError"),
    *("Exception", "BaseException"),
}
_ASKS = m.Attribute(attr=m.Name("__version__") | m.Name("VERSION")) | m.Call(
    m.Name("hasattr")
)
_SUPPRESS = m.Call(m.Name("suppress") | m.Attribute(attr=m.Name("suppress")))
# A `try` around such a node does not guard the code in the node, since it may run later.
_LATER = (cst.FunctionDef, cst.Lambda, cst.ClassDef)


def guard(program: Program, node: cst.CSTNode) -> str:
    """Return a sentence about the guard around a node, or "" if there is no guard."""
    caught = True
    for parent in program.parents(node):
        if isinstance(parent, _LATER):
            caught = False
        elif caught and _catches(parent):
            return EXCEPT
        elif _asks(parent):
            return TEST
    return ""


def _catches(node: cst.CSTNode) -> bool:
    """Return whether a `try` or `with suppress(...)` catches errors of missing names."""
    kinds: list[cst.CSTNode | None] = []
    if isinstance(node, cst.Try):
        kinds = [handler.type for handler in node.handlers]
    elif isinstance(node, cst.With):
        kinds = [w.item for w in node.items if m.matches(w.item, _SUPPRESS)]
    return any(kind is None or _names(kind) & _CAUGHT for kind in kinds)


def _names(node: cst.CSTNode) -> set[str]:
    """Return the set of names in an expression."""
    found = m.findall(node, m.Name())
    return {name.value for name in found if isinstance(name, cst.Name)}


def _asks(node: cst.CSTNode) -> bool:
    """Return whether a node tests a version or the existence of an attribute."""
    if isinstance(node, (cst.If, cst.IfExp, cst.While)):
        return bool(m.findall(node.test, _ASKS))
    return isinstance(node, cst.BooleanOperation) and bool(m.findall(node, _ASKS))


def raises(program: Program, node: cst.CSTNode) -> bool:
    """Return whether the guard around a `hasattr` is an assertion or raises an error."""
    for parent in program.parents(node):
        if isinstance(parent, cst.Assert):
            return True
        if isinstance(parent, cst.If):
            return bool(m.findall(parent.body, m.Raise()))
    return False
