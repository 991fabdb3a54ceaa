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
_HASATTR = m.Call(func=m.Name("hasattr"))
# What ends the code that a `try` protects: a function runs later.
_LATER = (cst.FunctionDef, cst.Lambda, cst.ClassDef)


def guard(program: Program, node: cst.CSTNode) -> str:
    """Return which guard a node stands below, or ""."""
    caught = True
    for _, parent in program.parents(node):
        if isinstance(parent, _LATER):
            caught = False
        elif caught and isinstance(parent, cst.Try) and _catches(parent):
            return EXCEPT
        elif _asks(program, parent):
            return TEST
    return ""


def _catches(node: cst.Try) -> bool:
    """Whether a `try` catches what an old name raises."""
    for handler in node.handlers:
        if handler.type is None:
            return True
        names = {name.value for name in m.findall(handler.type, m.Name())}  # type: ignore[attr-defined]
        if names & _CAUGHT:
            return True
    return False


def _asks(program: Program, node: cst.CSTNode) -> bool:
    """Whether a node is an `if` or an `and` that asks for a version or an attribute."""
    if isinstance(node, (cst.If, cst.IfExp)):
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
