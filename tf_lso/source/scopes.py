"""The names that a program binds, scope by scope, its places of interest, their guards.

The order of statements does not count. A name stands for everything that its scope ever
binds it to. This finds what a loop, a branch or a later cell binds.
"""

import ast
import collections
from collections.abc import Iterator
from typing import Any, NamedTuple

Place = tuple[int, int, int]  # cell or 0, line, bytes of the line before it
FUNCTION, CLASS, MODULE, COMPREHENSION = "function", "class", "module", "comprehension"


class Caught(NamedTuple):
    """The exceptions that are caught around a place, by name."""

    errors: frozenset[str]
    raises: bool = False  # whether each clause raises in turn


class Branch(NamedTuple):
    """A place that runs only where `test`, in `scope`, comes out as `taken`."""

    test: ast.expr
    scope: "Scope"
    taken: bool


class Fallback(NamedTuple):
    """A place that runs only where `body`, in `scope`, fails: an `except` clause."""

    body: tuple[ast.stmt, ...]
    scope: "Scope"


class Loud(NamedTuple):
    """A place within a test after whose no the program raises."""

    test: ast.expr


Guard = Caught | Branch | Fallback | Loud


class Imported(NamedTuple):
    """What an import binds a name to. `sure` is False for `from elsewhere import tf`."""

    path: str  # with dots at its beginning for a relative import
    node: ast.Import | ast.ImportFrom
    name: str = ""  # what a `from … import` imports
    sure: bool = True


class Derived(NamedTuple):
    """A class with these bases or, with `instance`, an object of one."""

    bases: tuple[ast.expr, ...]
    instance: bool = False


class Binding(NamedTuple):
    """One thing that a name is bound to. The value None stands for the unknown."""

    value: Any
    scope: "Scope"  # where an expression is to be resolved
    guards: tuple[Guard, ...] = ()


class Scope:
    """A module, class, function or comprehension, and the names that it binds."""

    def __init__(self, kind: str, parent: "Scope | None" = None, node: Any = None):
        self.kind, self.parent, self.node = kind, parent, node
        self.names = collections.defaultdict[str, list[Binding]](list)
        self.elsewhere: dict[str, str] = {}  # names that it declares global or nonlocal

    def outwards(self) -> "Iterator[Scope]":
        """Yield this scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def find(self, name: str) -> "Scope | None":
        """Return the scope whose binding of the name is meant here, or None."""
        seen = (scope for scope in self.outwards() if name in scope.names)
        return next((s for s in seen if s.kind != CLASS or s is self), None)

    @property
    def function(self) -> "Scope | None":
        """The nearest function, from this scope outwards."""
        return next((s for s in self.outwards() if s.kind == FUNCTION), None)


class Site(NamedTuple):
    """A node, with the scope and the guards that it stands in."""

    node: Any
    scope: Scope
    guards: tuple[Guard, ...] = ()
    cell: int | None = None  # number of the notebook cell, or None

    @property
    def place(self) -> Place:
        """The place of the node."""
        return self.at(self.node)

    def at(self, node: Any) -> Place:
        """Return the place of another node of the same cell."""
        return self.cell or 0, node.lineno, node.col_offset

    def bind(self, name: str, value: Any = None, owner: Scope | None = None) -> None:
        """Bind a name here to what a value is here."""
        known = Binding(value, self.scope, self.guards)
        (owner or self.scope).names[name].append(known)

    def under(self, guard: Guard | None) -> "Site":
        """Return the same place under one more guard, if there is one."""
        return self._replace(guards=(*self.guards, guard)) if guard else self
