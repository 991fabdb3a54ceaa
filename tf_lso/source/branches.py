"""Which branch a TensorFlow takes: tests of versions and of what a module has.

The test is computed for each version of the target. There is an answer if all agree.
"""

import ast
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tf_lso.source import lookup
from tf_lso.source.scopes import Scope
from tf_lso.source.syntax import last_name, literal

if TYPE_CHECKING:
    from tf_lso.source.inference import Inference

NOTHING = "nothing"  # the test has nothing to do with TensorFlow
DEPENDS = "depends"  # it does, but its outcome is not known

# Modules whose `__version__` is TensorFlow's, and Keras's.
_TENSORFLOW = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")
_KERAS = ("keras", "tensorflow.keras")
_COMPARE = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def _parsed(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "int": int,
    "tuple": tuple,
    "list": tuple,
    "map": lambda parts: tuple(map(int, parts)),
    **dict.fromkeys(("parse", "parse_version", "Version", "LooseVersion"), _parsed),
    **dict.fromkeys(("StrictVersion", "NumpyVersion"), _parsed),
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
    """Computes a test for the versions at `index` of their lists."""

    def __init__(self, values: "Inference", index: int) -> None:
        self.values = values
        self.index = index
        self.asked = False  # whether it asks for anything of TensorFlow
        self.versions = 0  # how often it asks for a version
        self.open: list[ast.expr] = []  # what names stand for, while it is computed

    def decided(self, test: ast.expr, scope: Scope) -> bool | str:
        """Return the outcome, or a word."""
        match test:
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
        before = self.versions
        try:
            return bool(self._value(test, scope))
        except Exception:  # it cannot be computed, or a comparison fails
            return DEPENDS if self.versions > before else NOTHING

    def _value(self, node: ast.expr, scope: Scope) -> Any:
        """Return the value of an expression, or raise. All sequences are tuples."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self._value(part, scope) for part in parts)
            case ast.Subscript(value=value, slice=ast.Slice(None, ast.Constant(end))):
                return self._value(value, scope)[:end]
            case ast.Subscript(value=value, slice=ast.Constant(index)):
                return self._value(value, scope)[index]
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                sides = (self._value(side, scope) for side in (left, right))
                return _COMPARE[type(op)](*sides)
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                self.asked = True
                return False
            case ast.Name(id=name):
                return self._name(name, scope)
            case ast.Attribute(attr="__version__" | "VERSION", value=base):
                return self._version(base, scope)
            case ast.Call():
                return self._called(node, scope)
            case ast.UnaryOp(op=ast.Not()) | ast.BoolOp():
                found = self.decided(node, scope)
                if not isinstance(found, str):
                    return found
        raise LookupError

    def _name(self, name: str, scope: Scope) -> Any:
        owner = scope.find(name)
        bound = [b for b in owner.names[name] if b.value] if owner else []
        value, where, _ = bound[0]
        if len(bound) > 1 or value in self.open:
            raise LookupError
        self.open.append(value)
        try:
            return self._value(value, where)
        finally:
            self.open.pop()

    def _version(self, base: ast.expr, scope: Scope) -> str:
        path = self.values.values(base, scope)[0].path.removesuffix(".version")
        known = {
            **dict.fromkeys(_TENSORFLOW, self.values.target.tensorflow),
            **dict.fromkeys(_KERAS, self.values.target.keras),
        }[path]
        self.asked = True
        self.versions += 1
        return known[min(self.index, len(known) - 1)]

    def _called(self, node: ast.Call, scope: Scope) -> Any:
        name = last_name(node.func)
        if name == "hasattr":
            owner, asked = node.args
            return self._has(owner, asked, scope)
        # The `int` of `map(int, ...)` is what _FUNCTIONS does anyway.
        given = [self._value(a, scope) for a in node.args if last_name(a) != "int"]
        if name in ("split", "startswith") and isinstance(node.func, ast.Attribute):
            found = getattr(self._value(node.func.value, scope), name)(*given)
            return tuple(found) if name == "split" else found
        return _FUNCTIONS[name](*given)

    def _has(self, owner: ast.expr, name: ast.expr, scope: Scope) -> bool:
        values = self.values.values(owner, scope)
        paths = [f"{v.path}.{literal(name)}" for v in values if not v.instance]
        path = next(filter(lookup.is_known, paths))
        self.asked = True
        return lookup.is_there(path, self.values.target)
