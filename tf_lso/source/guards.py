"""Guards: what keeps an old name from making a program fail.

A guard is a `try` whose `except` catches the error, the `except` of a `try` that succeeds,
or a branch that a TensorFlow does not take.
"""

import ast
import builtins
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from tf_lso.source.syntax import last_name

# A test with one of these may depend on what TensorFlow has.
_NAMES = {"hasattr", "isinstance", "TYPE_CHECKING"}
_ATTRIBUTES = {"__version__", "VERSION", "TYPE_CHECKING", "hasattr"}
# The uses that the check reports raise these. Other exceptions do not matter.
_ERRORS = ("ModuleNotFoundError", "AttributeError", "TypeError", "ValueError")


@dataclasses.dataclass(frozen=True)
class Caught:
    """The exceptions that the clauses around a place catch, by name."""

    names: frozenset[str]
    raises: bool = False  # whether each clause raises in turn

    @classmethod
    def by(cls, handlers: list[ast.ExceptHandler]) -> "Caught | None":
        """Return what `except` clauses catch, or None if they catch none of _ERRORS."""
        found: set[str] = set()
        raises = True
        for handler in handlers:
            caught = _exceptions(handler.type)
            found |= caught
            raises &= not caught or ends_loudly(handler.body)
        return cls(frozenset(found), raises) if found else None

    @classmethod
    def by_with(cls, items: list[ast.withitem]) -> "Caught | None":
        """Return what `with contextlib.suppress(…)` catches."""
        found: set[str] = set()
        for item in items:
            call = item.context_expr
            if isinstance(call, ast.Call) and last_name(call.func) == "suppress":
                for argument in call.args:
                    found |= _exceptions(argument)
        return cls(frozenset(found)) if found else None

    def catches(self, error: str) -> bool:
        """Whether an exception of that name is caught."""
        kind = getattr(builtins, error)
        return any(issubclass(kind, getattr(builtins, name)) for name in self.names)


def _exceptions(node: ast.expr | None) -> set[str]:
    """Return the names of built-in exceptions in an `except`. A bare one catches all."""
    if node is None:
        return {"BaseException"}
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    kinds = {name: getattr(builtins, name, None) for name in map(last_name, parts)}
    return {
        name
        for name, kind in kinds.items()
        if isinstance(kind, type)
        and any(issubclass(getattr(builtins, error), kind) for error in _ERRORS)
    }


@dataclasses.dataclass(frozen=True)
class Branch:
    """A place that runs only where `test`, in `scope`, comes out as `taken`."""

    test: ast.expr
    scope: Any
    taken: bool


@dataclasses.dataclass(frozen=True)
class Fallback:
    """A place that runs only where `body`, in `scope`, fails: an `except` clause."""

    body: tuple[ast.stmt, ...]
    scope: Any


Guard = Caught | Branch | Fallback
Guards = tuple[Guard, ...]


def ends_loudly(body: Iterable[ast.AST]) -> bool:
    """Whether the statements raise, so that the program does not go on in silence."""
    return any(isinstance(statement, ast.Raise) for statement in body)


def is_telling(test: ast.expr) -> bool:
    """Whether the test may depend on what TensorFlow has. True may be wrong."""
    stack: list[ast.AST] = [test]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            # A name alone may stand for such a test: `if OLD_TENSORFLOW:`.
            if node.id in _NAMES or node is test or _is_condition(test, node):
                return True
        elif isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
            return True
        stack.extend(ast.iter_child_nodes(node))
    return False


def _is_condition(test: ast.expr, node: ast.Name) -> bool:
    if isinstance(test, ast.UnaryOp):
        return test.operand is node
    return isinstance(test, ast.BoolOp) and node in test.values


def asked_for(branch: Branch) -> set[str]:
    """Return the attributes that exist where the branch is taken, by `hasattr`."""
    return {
        str(argument.value)
        for call in _true_calls(branch, "hasattr")
        for argument in call.args[1:]
        if isinstance(argument, ast.Constant)
    }


def types_asked_for(branch: Branch) -> list[ast.expr]:
    """Return the classes, one of which `isinstance` found where the branch is taken."""
    found: list[ast.expr] = []
    for call in _true_calls(branch, "isinstance"):
        for kinds in call.args[1:]:
            found += kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    return found


def _true_calls(branch: Branch, function: str) -> Iterator[ast.Call]:
    """Yield the calls of a function that return True where the branch is taken."""
    stack = [(branch.test, branch.taken)]
    while stack:
        test, holds = stack.pop()
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            stack.append((test.operand, not holds))
        elif isinstance(test, ast.BoolOp):
            if isinstance(test.op, ast.And) == holds:
                stack.extend((value, holds) for value in test.values)
        elif isinstance(test, ast.Call) and holds and last_name(test.func) == function:
            yield test
