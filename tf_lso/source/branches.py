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
from tf_lso.source.syntax import last_name

if TYPE_CHECKING:
    from tf_lso.source.inference import Inference

# Modules whose `__version__` is TensorFlow's, and Keras's.
_TENSORFLOW = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")
_KERAS = ("keras", "tensorflow.keras")
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_PARSERS = {"parse", "parse_version", "Version"}
_PARSERS |= {"LooseVersion", "StrictVersion", "NumpyVersion"}


NOTHING = "nothing"  # the test has nothing to do with TensorFlow
DEPENDS = "depends"  # it does, but its outcome is not known


class _Unknown(Exception):
    """The value cannot be computed here."""


def outcome(test: ast.expr, scope: Scope, values: "Inference") -> bool | str:
    """Return True or False if the target's versions decide the test, else a word."""
    found: set[bool | str] = set()
    for index in range(max(len(values.target.tensorflow), len(values.target.keras))):
        computed = _Test(values, scope, index)
        result: bool | str
        try:
            result = bool(computed.of(test))
        except Exception:  # _Unknown, or a comparison that fails
            result = DEPENDS if computed.versions else NOTHING
        if not computed.asked:
            return NOTHING  # a setting of the program's own
        found.add(result)
    return found.pop() if len(found) == 1 else DEPENDS


class _Test:
    """Computes an expression for the versions at `index` of their lists."""

    def __init__(self, values: "Inference", scope: Scope, index: int) -> None:
        self.values = values
        self.scope = scope
        self.index = index
        self.asked = False  # whether it asks for anything of TensorFlow
        self.versions = False  # whether the current part asks for a version
        self.open: list[str] = []  # names being computed

    def of(self, node: ast.AST) -> Any:
        """Return the value of the expression, or raise."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Tuple(elts=parts):
                return tuple(map(self.of, parts))
            case ast.List(elts=parts):
                return list(map(self.of, parts))
            case ast.Slice():
                return slice(
                    *(n and self.of(n) for n in (node.lower, node.upper, node.step))
                )
            case ast.Subscript(value=value, slice=index):
                return self.of(value)[self.of(index)]
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return not self.of(part)
            case ast.BoolOp():
                return self._boolop(node)
            case ast.Compare():
                return self._compare(node)
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                self.asked = True
                return False
            case ast.Name(id=name):
                return self._name(name)
            case (
                ast.Attribute(attr="__version__", value=base)
                | ast.Attribute(
                    attr="VERSION", value=ast.Attribute(attr="version", value=base)
                )
            ):
                return self._version(base)
            case ast.Call():
                return self._call(node)
        raise _Unknown

    def _boolop(self, node: ast.BoolOp) -> bool:
        """Decide by the parts that can be computed: `False and …` is False."""
        decisive = isinstance(node.op, ast.Or)
        unknown = versions = False
        for part in node.values:
            self.versions = False
            try:
                if bool(self.of(part)) == decisive:
                    return decisive
            except Exception:
                unknown = True
                versions |= self.versions
        self.versions = versions
        if unknown:
            raise _Unknown
        return not decisive

    def _compare(self, node: ast.Compare) -> bool:
        left = self.of(node.left)
        for op, right in zip(node.ops, map(self.of, node.comparators)):
            if type(op) not in _COMPARE:
                raise _Unknown
            if not _COMPARE[type(op)](left, right):
                return False
            left = right
        return True

    def _name(self, name: str) -> Any:
        owner = self.scope.find(name)
        bound = [b for b in owner.names[name] if b.value] if owner else []
        if len(bound) != 1 or not isinstance(bound[0].value, ast.expr):
            raise _Unknown
        if name in self.open:
            raise _Unknown
        self.open.append(name)
        outer, self.scope = self.scope, bound[0].scope
        try:
            return self.of(bound[0].value)
        finally:
            self.scope = outer
            self.open.pop()

    def _version(self, base: ast.expr) -> str:
        target = self.values.target
        for value in self.values.values(base, self.scope):
            if value.path in (*_TENSORFLOW, *_KERAS):
                self.asked = self.versions = True
                ours = value.path in _TENSORFLOW
                known = target.tensorflow if ours else target.keras
                return known[min(self.index, len(known) - 1)]
        raise _Unknown

    def _call(self, node: ast.Call) -> Any:
        match last_name(node.func), node.args:
            case "hasattr", [owner, ast.Constant(value=name)]:
                return self._hasattr(owner, name)
            case name, [text] if name in _PARSERS:
                return _parsed(self.of(text))
            case "int", [text]:
                return int(self.of(text))
            case "map", [_, parts]:
                return [int(part) for part in self.of(parts)]
            case "tuple", [parts]:
                return tuple(self.of(parts))
            case "list", [parts]:
                return list(self.of(parts))
            case ("split" | "startswith") as name, arguments:
                if isinstance(node.func, ast.Attribute):
                    text = self.of(node.func.value)
                    return getattr(text, name)(*map(self.of, arguments))
        for argument in node.args:
            self.of(argument)  # an argument may ask for a version
        raise _Unknown

    def _hasattr(self, owner: ast.expr, name: object) -> bool:
        for value in self.values.values(owner, self.scope):
            path = f"{value.path}.{name!s}"
            if not value.instance and lookup.is_known(path):
                self.asked = True
                return lookup.is_there(path, self.values.target)
        raise _Unknown


def _parsed(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
