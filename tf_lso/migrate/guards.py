"""Guards: a use that the program itself takes care of is listed and not changed."""

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate.program import Program

EXCEPT = "An `except` clause around it decides what runs"
TEST = "A test around it asks for a version or an attribute"
_CAUGHT = {
    *("ImportError", "ModuleNotFoundError", "AttributeError"),
    *("Exception", "BaseException"),
}
_VERSION = m.Attribute(attr=m.Name("__version__") | m.Name("VERSION"))
_SUPPRESS = m.Name("suppress") | m.Attribute(attr=m.Name("suppress"))
_HASATTR = m.Call(func=m.Name("hasattr"))
# What ends the code that a `try` protects: a function runs later.
_LATER = (cst.FunctionDef, cst.Lambda, cst.ClassDef)


def guard(program: Program, node: cst.CSTNode) -> str:
    """Return which guard a node stands below, or ""."""
    caught = True
    for _, parent in program.parents(node):
        if isinstance(parent, _LATER):
            caught = False
        elif caught and _catches(parent):
            return EXCEPT
        elif _asks(program, parent):
            return TEST
    return ""


def _catches(node: cst.CSTNode) -> bool:
    """Whether a `try`, or `with suppress(...)`, catches what an old name raises."""
    if isinstance(node, cst.With):
        return any(_names(item) & _CAUGHT for item in node.items if _suppresses(item))
    if not isinstance(node, cst.Try):
        return False
    return any(
        handler.type is None or _names(handler.type) & _CAUGHT
        for handler in node.handlers
    )


def _suppresses(item: cst.WithItem) -> bool:
    return m.matches(item, m.WithItem(m.Call(_SUPPRESS)))


def _names(node: cst.CSTNode) -> set[str]:
    """Return the names in an expression."""
    found = m.findall(node, m.Name())
    return {name.value for name in found if isinstance(name, cst.Name)}


def _asks(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node is an `if`, `while` or `and` that asks for a version or an attribute."""
    if isinstance(node, (cst.If, cst.IfExp, cst.While)):
        test: cst.CSTNode = node.test
    elif isinstance(node, cst.BooleanOperation):
        test = node
    else:
        return False
    if m.findall(test, _VERSION | _HASATTR):
        return True
    return any(_is_version(program, name) for name in m.findall(test, m.Name()))


def _is_version(program: Program, name: cst.CSTNode) -> bool:
    """Whether a name is bound to a test of a version, as `OLD = tf.__version__ < "2.4"`."""
    if not isinstance(name, cst.Name):
        return False
    for assignment in program.assignments(name):
        bound = program.parent(getattr(assignment, "node", name))
        if isinstance(bound, cst.AssignTarget):
            statement = program.parent(bound)
            if isinstance(statement, cst.Assign):
                return bool(m.findall(statement.value, _VERSION))
    return False


def raises(program: Program, node: cst.CSTNode) -> bool:
    """Whether the guard that a `hasattr` is part of ends the program."""
    for child, parent in program.parents(node):
        if isinstance(parent, cst.Assert):
            return True
        if isinstance(parent, cst.If) and parent.test is child:
            return bool(m.findall(parent.body, m.Raise()))
    return False


def ends(handler: cst.CSTNode) -> bool:
    """Whether an `except` clause raises again."""
    return bool(m.findall(handler, m.Raise()))
