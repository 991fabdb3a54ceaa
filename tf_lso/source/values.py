"""What an expression of a program may stand for: values, and a doubt about others."""

import ast
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tf_lso import names
from tf_lso.source import lookup, reasons
from tf_lso.source.scopes import Scope
from tf_lso.source.syntax import IMPORT_STATEMENTS

# TensorFlow's APIs. They have the same `compat`.
_COMPAT = ("tensorflow.compat.v1", "tensorflow.compat.v2")


class Stop(NamedTuple):
    """A place at which a value gets a name: an import, or a chain that is assigned."""

    path: str
    node: ast.AST | None = None
    scope: Scope | None = None


class Value(NamedTuple):
    """One thing that an expression may stand for."""

    path: str  # dotted, of a module, class or function, as the program spells it
    instance: bool = False  # whether it is what a call of the path returns
    derived: bool = False  # whether it is a subclass of the path, or one's instance
    sure: bool = True  # False where it is only likely that the path is meant
    guarded: bool = False  # whether it comes from a place that the program passes over
    stops: tuple[Stop, ...] = ()  # the places on its way here

    @property
    def named(self) -> bool:
        """Whether its path stands for a module, class or function itself."""
        return not (self.instance or self.derived)

    @property
    def origin(self) -> ast.Import | ast.ImportFrom | None:
        """The import that it comes from, if it comes from one of this file."""
        first = self.stops[0].node if self.stops else None
        return first if isinstance(first, IMPORT_STATEMENTS) else None

    @property
    def is_optimizer(self) -> bool:
        """Whether it is an instance of one of the old LossScaleOptimizers."""
        symbol = lookup.symbol(self.path)
        if self.path.startswith("tf_lso."):
            symbol = self.path.rpartition(".")[2]
        return self.instance and symbol in names.OPTIMIZERS


class Found(NamedTuple):
    """All that an expression may stand for; `doubt` says why there may be more."""

    values: tuple[Value, ...] = ()
    doubt: reasons.Reason | None = None

    @property
    def certain(self) -> tuple[Value, ...]:
        """The values whose names stand for modules, classes and functions themselves."""
        return tuple(value for value in self.values if value.sure and value.named)

    def each(self, changed: Callable[[Value], Value | None]) -> "Found":
        """Return the same of other values; None stands for one that is left out."""
        return self._replace(values=tuple(filter(None, map(changed, self.values))))

    def owners(self, name: str) -> "Found":
        """Return the same, as what to look up an attribute of that name in."""
        if name != "compat":
            return self
        return self.each(
            lambda v: v._replace(path="tensorflow") if v.path in _COMPAT else v
        )


def union(parts: Iterable[Found]) -> Found:
    """Return the answer for one of several things."""
    values: dict[Value, None] = {}  # as an ordered set
    doubt = None
    for found in parts:
        values.update(dict.fromkeys(found.values))
        doubt = doubt or found.doubt
    return Found(tuple(values), doubt)
