"""Guards: what keeps an old name from making a program fail.

A guard is a `try` whose `except` catches the error, the `except` of a `try` that succeeds,
or a branch that a TensorFlow does not take. A test is decided for each version of the
target. There is an answer if all agree.
"""

import ast
import itertools
import operator
import re
from typing import TYPE_CHECKING, Any

from tf_lso.source import lookup
from tf_lso.source.scopes import Branch, Fallback, Guard, Scope
from tf_lso.source.syntax import IMPORT_STATEMENTS, last_name, literal

if TYPE_CHECKING:
    from tf_lso.source.inference import Inference

NOTHING = "nothing"  # it has nothing to do with TensorFlow
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
_PART = re.compile(r"\[(:?)(\d+)\]")  # `[0]` or `[:2]`


def outcome(values: "Inference", guard: Guard) -> bool | str:
    """Return whether the target's versions run what is under a guard, or else a word."""
    if not isinstance(guard, Branch):
        dead = isinstance(guard, Fallback) and _succeeds(guard, values)
        return False if dead else NOTHING
    found, target = set(), values.target
    last = target.tensorflow[-1]  # of Keras, more versions are told apart
    pairs = itertools.zip_longest(target.tensorflow, target.keras, fillvalue=last)
    for tensorflow, keras in pairs:
        test = _Test(values, tensorflow, keras)
        decided = test.decided(guard.test, guard.scope)
        found.add(decided if test.asked else NOTHING)  # a setting of the program's own
    known = found.pop() if len(found) == 1 else DEPENDS
    return known if isinstance(known, str) else known is guard.taken


def _succeeds(fallback: Fallback, values: "Inference") -> bool:
    """Whether what a `try` imports and reaches of TensorFlow is all there."""
    known, target = False, values.target
    for node in (n for statement in fallback.body for n in ast.walk(statement)):
        if not isinstance(node, (*IMPORT_STATEMENTS, ast.Attribute)):
            continue
        how, paths = lookup.how_of(node), values.paths(node, fallback.scope)
        first = {path.partition(".")[0] for path in paths}
        if how != lookup.ACCESS and not first <= lookup.FRAMEWORKS:
            return False  # another library, which may be missing
        for path in filter(lookup.is_known, paths):
            verdict = lookup.of_path(path, how, target)
            if not lookup.is_there(path, target) or (verdict and verdict.error):
                return False
            known = True
    return known


class _Test:
    """Decides a test for two versions."""

    def __init__(self, values: "Inference", tensorflow: str, keras: str) -> None:
        self.values = values
        self.versions = dict.fromkeys(_TENSORFLOW, tensorflow)
        self.versions |= dict.fromkeys(_KERAS, keras)
        self.asked = False  # whether it asks for anything of TensorFlow
        self.names = 100  # how many names it may follow: `x = x` has no end

    def decided(self, test: ast.expr, scope: Scope) -> bool | str:
        """Return the outcome, or a word."""
        test, scope = self._meant(test, scope)
        match test:
            case ast.Constant(value):
                return bool(value)
            case ast.UnaryOp(ast.Not(), part):
                found = self.decided(part, scope)
                return found if isinstance(found, str) else not found
            case ast.BoolOp(op, parts):
                decisive = isinstance(op, ast.Or)
                each = [self.decided(part, scope) for part in parts]
                known = (decisive, DEPENDS, NOTHING)  # the first one of these counts
                return next((one for one in known if one in each), not decisive)
            case ast.Name("TYPE_CHECKING") | ast.Attribute(_, "TYPE_CHECKING"):
                self.asked = True
                return False
            case ast.Call(called, [owner, asked]) if last_name(called) == "hasattr":
                return self._has(owner, f"{literal(asked)}", scope)
            case _ if not self._version_in(test, scope):
                return NOTHING
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
        for value in self.values.values(owner, scope):
            path = f"{value.path}.{name}"
            if lookup.is_known(path) and not value.instance:
                self.asked = True
                return lookup.is_there(path, self.values.target)
        return NOTHING

    def _side(self, node: ast.expr, scope: Scope) -> str | tuple[int, ...]:
        """Return a text as it is, and the numbers of all else, whatever parses them."""
        node, scope = self._meant(node, scope)
        if text := literal(node) or self._version(node, scope):
            return text
        spelled, version = ast.unparse(node), self._version_in(node, scope)
        numbers = _numbers(version or spelled)
        for ends, index in _PART.findall(spelled) if version else ():
            numbers = numbers[0 if ends else int(index) :][: int(index) if ends else 1]
        return numbers

    def _version_in(self, node: ast.expr, scope: Scope) -> str:
        """Return the first version that is anywhere in an expression, or ""."""
        found = (self._version(part, scope) for part in ast.walk(node))
        return next(filter(None, found), "")

    def _version(self, node: ast.AST, scope: Scope) -> str:
        """Return the version that an expression is, or ""."""
        node, scope = self._meant(node, scope)
        if not isinstance(node, ast.Attribute) or node.attr not in _VERSIONS:
            return ""
        for value in self.values.values(node.value, scope):
            path = value.path.removesuffix(".version")
            if path in self.versions:
                self.asked = True
                return self.versions[path]
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\b\d+", text)[:3]))
