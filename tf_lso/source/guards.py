"""Guards: what keeps an old name from making a program fail.

A guard is a `try` whose `except` catches the error, the `except` of a `try` that succeeds,
or a branch that a TensorFlow does not take.
"""

import ast
import builtins
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from tf_lso.source.syntax import last_name, listed

# What the uses that are reported raise. Other exceptions do not matter.
_ERRORS = {
    name: getattr(builtins, name)
    for name in "ModuleNotFoundError ImportError AttributeError TypeError ValueError".split()
}


@dataclasses.dataclass(frozen=True)
class Caught:
    """The exceptions that are caught around a place, by name."""

    errors: frozenset[str]
    raises: bool = False  # whether each clause raises in turn


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


def caught(types: Iterable[ast.expr | None], raises: bool = False) -> Caught | None:
    """Return what catches these exceptions, or None where none of them matters.

    None stands for the type of a bare `except`, which catches all.
    """
    names = (last_name(n) if n else "BaseException" for t in types for n in _each(t))
    kinds = [getattr(builtins, name, None) for name in names]
    classes = tuple(kind for kind in kinds if isinstance(kind, type))
    errors = (name for name, error in _ERRORS.items() if issubclass(error, classes))
    found = frozenset(errors)
    return Caught(found, raises) if found else None


def _each(node: ast.expr | None) -> list[ast.expr] | list[None]:
    return listed(node) if node else [None]


def ends_loudly(body: Iterable[ast.AST]) -> bool:
    """Whether the statements raise, so that the program does not go on in silence."""
    return any(isinstance(statement, ast.Raise) for statement in body)


def asked_for(guard: Guard, function: str) -> list[tuple[ast.expr, Any]]:
    """Return what `hasattr` or `isinstance` asks for that holds at the guard.

    Each stands with the scope that it is to be resolved in.
    """
    if not isinstance(guard, Branch):
        return []
    found = _asked(guard.test, guard.taken, function)
    return [(part, guard.scope) for node in found for part in listed(node)]


def _asked(test: ast.expr, holds: bool, function: str) -> Iterator[ast.expr]:
    """Yield what is asked for in calls that return True where the test holds, or not."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=part):
            yield from _asked(part, not holds, function)
        case ast.BoolOp(op=op, values=parts) if isinstance(op, ast.And) == holds:
            for part in parts:
                yield from _asked(part, holds, function)
        case ast.Call(func=called, args=[_, asked]) if holds:
            if last_name(called) == function:
                yield asked
