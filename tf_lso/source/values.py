"""What an expression may stand for: the answers of `inference`."""

import ast
from collections.abc import Iterable
from typing import NamedTuple

from tf_lso import names
from tf_lso.source import lookup, reasons
from tf_lso.source.scopes import Scope
from tf_lso.source.syntax import IMPORT_STATEMENTS


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
    def origin(self) -> ast.Import | ast.ImportFrom | None:
        """The import that it comes from, if it comes from one of this file."""
        first = self.stops[0].node if self.stops else None
        return first if isinstance(first, IMPORT_STATEMENTS) else None


class Found(NamedTuple):
    """All that an expression may stand for; `doubt` says why there may be more."""

    values: tuple[Value, ...] = ()
    doubt: reasons.Reason | None = None

    @property
    def certain(self) -> tuple[Value, ...]:
        """The values whose names stand for modules, classes and functions themselves."""
        return tuple(
            v for v in self.values if v.sure and not v.instance and not v.derived
        )


def optimizer_of(value: Value) -> bool:
    """Whether the value is an instance of one of the old LossScaleOptimizers."""
    symbol = lookup.symbol(value.path)
    if value.path.startswith("tf_lso."):
        symbol = value.path.rpartition(".")[2]
    return value.instance and symbol in names.OPTIMIZERS


def union(parts: Iterable[Found]) -> Found:
    """Return the answer for one of several things."""
    values: dict[Value, None] = {}  # as an ordered set
    doubt = None
    for found in parts:
        values.update(dict.fromkeys(found.values))
        doubt = doubt or found.doubt
    return Found(tuple(values), doubt)
