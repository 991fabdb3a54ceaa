"""Find guards, which are conditions and `except` clauses around a use of an old name.

An example is the condition `if hasattr(opt, "get_scaled_loss"):`. `migrate` lists a use inside
a guard, but does not change it.
"""

from typing import Any

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate import consequences
from tf_lso.migrate.nodes import literal
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
_LOOKS_UP = m.Call(
    func=m.Name("hasattr") | m.Name("getattr"),
    args=[m.Arg(), m.Arg(), m.ZeroOrMore()],
)
_SUPPRESS = m.Call(m.Name("suppress") | m.Attribute(attr=m.Name("suppress")))
# The code of a function may run later, so a `try` around the function may not catch its errors.
_LATER = (cst.FunctionDef, cst.Lambda)


def guard(program: Program, node: cst.CSTNode) -> str:
    """Return a phrase that describes the guard around a node, or ""."""
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
    kinds: list[cst.CSTNode | None] = []
    if isinstance(node, cst.Try):
        kinds = [handler.type for handler in node.handlers]
    elif isinstance(node, cst.With):
        kinds = [w.item for w in node.items if m.matches(w.item, _SUPPRESS)]
    return any(kind is None or _names(kind) & _CAUGHT for kind in kinds)


def _names(node: cst.CSTNode) -> set[str]:
    found = m.findall(node, m.Name())
    return {name.value for name in found if isinstance(name, cst.Name)}


def _asks(node: cst.CSTNode) -> bool:
    if isinstance(node, (cst.If, cst.IfExp, cst.While)):
        return bool(m.findall(node.test, _ASKS))
    return isinstance(node, cst.BooleanOperation) and bool(m.findall(node, _ASKS))


def raises(program: Program, node: cst.CSTNode) -> bool:
    """Return whether the test `node`, such as `hasattr`, decides if an error is raised."""
    for parent in program.parents(node):
        if isinstance(parent, cst.Assert):
            return True
        if isinstance(parent, cst.If):
            return bool(m.findall(parent.body, m.Raise()))
    return False


def asks_for_gone(program: Program, node: cst.CSTNode) -> bool:
    """Return whether `hasattr` or `getattr` looks up a missing old name in `node`."""
    argument = program.parent(node)
    call: Any = argument and program.parent(argument)
    if not call or not m.matches(call, _LOOKS_UP) or call.args[0] is not argument:
        return False
    path = f"{program.path(node)}.{literal(call.args[1].value)}"
    known = consequences.of_path(path, target=program.target)
    return known is not None and not consequences.is_there(path, program.target)
