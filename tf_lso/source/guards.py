"""Guards: what keeps an old name from making a program fail.

A guard is a `try` whose `except` catches the error, the `except` of a `try` that succeeds,
or a branch that a TensorFlow does not take. A test is decided for each version of the
target. There is an answer if all agree.
"""

import ast
import builtins
import operator
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tf_lso.source import lookup
from tf_lso.source.scopes import Branch, Caught, Guard, Scope
from tf_lso.source.syntax import last_name, listed, literal

if TYPE_CHECKING:
    from tf_lso.source.inference import Inference

# What the uses that are reported raise. Other exceptions do not matter.
_ERRORS = (ModuleNotFoundError, ImportError, AttributeError, TypeError, ValueError)


def caught(types: Iterable[ast.expr | None], raises: bool = False) -> Caught | None:
    """Return what catches these exceptions, or None where none of them matters.

    None stands for the type of a bare `except`, which catches all.
    """
    names = (last_name(n) if n else "BaseException" for t in types for n in listed(t))
    kinds = [getattr(builtins, name, None) for name in names]
    classes = tuple(kind for kind in kinds if isinstance(kind, type))
    errors = frozenset(e.__name__ for e in _ERRORS if issubclass(e, classes))
    return Caught(errors, raises) if errors else None


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


# --- Which branch a TensorFlow takes.

NOTHING = "nothing"  # the test has nothing to do with TensorFlow
DEPENDS = "depends"  # it does, but its outcome is not known

# Modules whose `__version__` is TensorFlow's, and Keras's.
_TENSORFLOW = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")
_KERAS = ("keras", "tensorflow.keras")
_VERSIONS = ("__version__", "VERSION")
_COMPARE = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def outcome(test: ast.expr, scope: Scope, values: "Inference") -> bool | str:
    """Return True or False if the target's versions decide the test, else a word."""
    found = set()
    for index in range(max(map(len, (values.target.tensorflow, values.target.keras)))):
        one = _Test(values, index)
        decided = one.decided(test, scope)
        found.add(decided if one.asked else NOTHING)  # a setting of the program's own
    return found.pop() if len(found) == 1 else DEPENDS


class _Test:
    """Decides a test for the versions at `index` of their lists."""

    def __init__(self, values: "Inference", index: int) -> None:
        self.values = values
        self.index = index
        self.asked = False  # whether it asks for anything of TensorFlow
        self.names = 100  # how many names it may follow: `x = x` has no end

    def decided(self, test: ast.expr, scope: Scope) -> bool | str:
        """Return the outcome, or a word."""
        test, scope = self._meant(test, scope)
        match test:
            case ast.Constant(value=value):
                return bool(value)
            case ast.UnaryOp(op=ast.Not(), operand=part):
                found = self.decided(part, scope)
                return found if isinstance(found, str) else not found
            case ast.BoolOp(op=op, values=parts):
                decisive = isinstance(op, ast.Or)
                each = [self.decided(part, scope) for part in parts]
                if decisive in each:
                    return decisive
                unknown = sorted(part for part in each if isinstance(part, str))
                return unknown[0] if unknown else not decisive
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                self.asked = True
                return False
            case ast.Call(func=function, args=[owner, asked]):
                if last_name(function) == "hasattr":
                    return self._has(owner, f"{literal(asked)}", scope)
        return self._of_version(test, scope)

    def _meant(self, node: Any, scope: Scope) -> tuple[Any, Scope]:
        """Return what a name is bound to, if that is one thing."""
        while isinstance(node, ast.Name) and self.names:
            self.names -= 1
            owner = scope.find(node.id)
            bound = [b for b in owner.names[node.id] if b.value] if owner else []
            if len(bound) != 1 or not isinstance(bound[0].value, ast.expr):
                break
            node, scope, _ = bound[0]
        return node, scope

    def _has(self, owner: ast.expr, name: str, scope: Scope) -> bool | str:
        values = (v for v in self.values.values(owner, scope) if not v.instance)
        for path in (f"{value.path}.{name}" for value in values):
            if lookup.is_known(path):
                self.asked = True
                return lookup.is_there(path, self.values.target)
        return NOTHING

    # --- Versions: on one side of a comparison, with numbers on the other.

    def _of_version(self, test: ast.expr, scope: Scope) -> bool | str:
        if not any(self._version(part, scope) for part in ast.walk(test)):
            return NOTHING
        match test:
            case ast.Compare(left, [op], [right]) if type(op) in _COMPARE:
                sides = [self._side(left, scope), self._side(right, scope)]
                if not all(isinstance(side, str) for side in sides):
                    sides = [_numbers(s) if isinstance(s, str) else s for s in sides]
                return _COMPARE[type(op)](*sides) if all(sides) else DEPENDS
            case ast.Call(
                ast.Attribute(owner, "startswith"), [ast.Constant(str(text))]
            ):
                return self._version(owner, scope).startswith(text)
        return DEPENDS

    def _side(self, node: ast.expr, scope: Scope) -> str | tuple[int, ...]:
        """Return a text as it is, and the numbers of all else, whatever parses them."""
        node, scope = self._meant(node, scope)
        if text := literal(node) or self._version(node, scope):
            return text
        parts = list(ast.walk(node))
        versions = [v for part in parts if (v := self._version(part, scope))]
        texts = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
        numbers = _numbers(versions[0] if versions else ".".join(texts))
        for part in parts if versions else ():
            match part:
                case ast.Subscript(_, ast.Constant(int(index))):
                    numbers = numbers[index : index + 1]
                case ast.Subscript(ast.Call(), ast.Slice(None, ast.Constant(int(end)))):
                    numbers = numbers[:end]
        return numbers

    def _version(self, node: ast.AST, scope: Scope) -> str:
        """Return the version that an expression is, or ""."""
        node, scope = self._meant(node, scope)
        if not isinstance(node, ast.Attribute) or node.attr not in _VERSIONS:
            return ""
        target = self.values.target
        for value in self.values.values(node.value, scope):
            path = value.path.removesuffix(".version")
            if path in (*_TENSORFLOW, *_KERAS):
                known = target.tensorflow if path in _TENSORFLOW else target.keras
                self.asked = True
                return known[min(self.index, len(known) - 1)]
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:3]))
