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
        caught = [(_exceptions([h.type]), ends_loudly(h.body)) for h in handlers]
        found = frozenset[str]().union(*(names for names, _ in caught))
        raises = all(loud for names, loud in caught if names)
        return cls(found, raises) if found else None

    @classmethod
    def by_with(cls, items: list[ast.withitem]) -> "Caught | None":
        """Return what `with contextlib.suppress(…)` catches."""
        calls = [item.context_expr for item in items]
        found = _exceptions(
            argument
            for call in calls
            if isinstance(call, ast.Call) and last_name(call.func) == "suppress"
            for argument in call.args
        )
        return cls(found) if found else None

    def catches(self, error: str) -> bool:
        """Whether an exception of that name is caught."""
        return any(_is_kind(error, name) for name in self.names)


def _exceptions(nodes: Iterable[ast.expr | None]) -> frozenset[str]:
    """Return the names of built-in exceptions in an `except`. A bare one catches all."""
    found: set[str] = set()
    for node in nodes:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        found.update(last_name(part) if part else "BaseException" for part in parts)
    return frozenset(n for n in found if any(_is_kind(error, n) for error in _ERRORS))


def _is_kind(error: str, name: str) -> bool:
    """Whether an exception of the first name is caught by the second."""
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(getattr(builtins, error), kind)


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
    # A name alone may stand for such a test: `if OLD_TENSORFLOW:`.
    alone = [test, getattr(test, "operand", None), *getattr(test, "values", ())]
    return any(
        node.id in _NAMES or node in alone
        if isinstance(node, ast.Name)
        else isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES
        for node in ast.walk(test)
    )


def asked_for(branch: Branch) -> set[str]:
    """Return the attributes that exist where the branch is taken, by `hasattr`."""
    arguments = _arguments(branch.test, branch.taken, "hasattr")
    return {str(a.value) for a in arguments if isinstance(a, ast.Constant)}


def types_asked_for(branch: Branch) -> list[ast.expr]:
    """Return the classes, one of which `isinstance` found where the branch is taken."""
    found: list[ast.expr] = []
    for kinds in _arguments(branch.test, branch.taken, "isinstance"):
        found += kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    return found


def _arguments(test: ast.expr, holds: bool, function: str) -> Iterator[ast.expr]:
    """Yield what is asked for in calls that return True where the test holds, or not."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=part):
            yield from _arguments(part, not holds, function)
        case ast.BoolOp(op=op, values=parts) if isinstance(op, ast.And) == holds:
            for part in parts:
                yield from _arguments(part, holds, function)
        case ast.Call(func=called, args=[_, *asked]) if holds:
            if last_name(called) == function:
                yield from asked
