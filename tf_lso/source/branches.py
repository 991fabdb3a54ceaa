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
        method = getattr(self, f"_{type(node).__name__}".lower(), None)
        if method is None:
            raise _Unknown
        return method(node)

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(map(self.of, node.elts))

    def _list(self, node: ast.List) -> list[Any]:
        return list(map(self.of, node.elts))

    def _unaryop(self, node: ast.UnaryOp) -> bool:
        if not isinstance(node.op, ast.Not):
            raise _Unknown
        return not self.of(node.operand)

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

    def _name(self, node: ast.Name) -> Any:
        if node.id == "TYPE_CHECKING":
            self.asked = True
            return False
        owner = self.scope.find(node.id)
        bound = [b for b in owner.names[node.id] if b.value] if owner else []
        if len(bound) != 1 or not isinstance(bound[0].value, ast.expr):
            raise _Unknown
        if node.id in self.open:
            raise _Unknown
        self.open.append(node.id)
        outer, self.scope = self.scope, bound[0].scope
        try:
            return self.of(bound[0].value)
        finally:
            self.scope = outer
            self.open.pop()

    def _attribute(self, node: ast.Attribute) -> Any:
        if node.attr == "TYPE_CHECKING":
            self.asked = True
            return False
        version = node.attr == "__version__"
        base = node.value
        if node.attr == "VERSION" and isinstance(base, ast.Attribute):
            version, base = base.attr == "version", base.value
        if version:
            for value in self.values.values(base, self.scope):
                if value.path in (*_TENSORFLOW, *_KERAS):
                    self.asked = self.versions = True
                    target = self.values.target
                    ours = value.path in _TENSORFLOW
                    known = target.tensorflow if ours else target.keras
                    return known[min(self.index, len(known) - 1)]
        raise _Unknown

    def _subscript(self, node: ast.Subscript) -> Any:
        return self.of(node.value)[self._index(node.slice)]

    def _index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            return slice(*(n and self.of(n) for n in (node.lower, node.upper)))
        return self.of(node)

    def _call(self, node: ast.Call) -> Any:
        function = node.func
        name = last_name(function)
        if name == "hasattr" and len(node.args) == 2:
            return self._hasattr(*node.args)
        if name in _PARSERS and len(node.args) == 1:
            return _parsed(self.of(node.args[0]))
        if name == "int" and len(node.args) == 1:
            return int(self.of(node.args[0]))
        if name == "map" and len(node.args) == 2:
            return [int(part) for part in self.of(node.args[1])]
        if name in ("tuple", "list") and len(node.args) == 1:
            return (tuple if name == "tuple" else list)(self.of(node.args[0]))
        if name in ("split", "startswith") and isinstance(function, ast.Attribute):
            text = self.of(function.value)
            return getattr(text, name)(*map(self.of, node.args))
        for argument in node.args:
            self.of(argument)  # an argument may ask for a version
        raise _Unknown

    def _hasattr(self, owner: ast.expr, attribute: ast.expr) -> bool:
        if not isinstance(attribute, ast.Constant):
            raise _Unknown
        for value in self.values.values(owner, self.scope):
            path = f"{value.path}.{attribute.value!s}"
            if not value.instance and lookup.is_known(path):
                self.asked = True
                return lookup.is_there(path, self.values.target)
        raise _Unknown


def _parsed(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
