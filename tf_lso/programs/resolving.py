"""From an expression to what it stands for: the way there, whatever an answer is.

There are two kinds of answers. `values.Values` says what is likely, for reports;
`tf_lso.migrate.certain` says what is certain, for edits.
"""

import abc
import ast
from collections.abc import Iterable
from typing import Any

from tf_lso.programs.scopes import Scope
from tf_lso.programs.syntax import HELPERS

# Other expressions stand for nothing that is known.
KINDS = {ast.Attribute, ast.Call, ast.Name, ast.IfExp, ast.BoolOp, ast.NamedExpr}


class Resolver(abc.ABC):
    """Takes an expression apart, and puts the answers for its parts together."""

    unknown: Any  # the answer for an expression of another kind

    def of(self, node: ast.AST, scope: Scope) -> Any:
        """Return what an expression in that scope stands for."""
        chain = []  # a loop, since chains of calls may be deeper than Python's stack
        while isinstance(node, (ast.Attribute, ast.Call)):
            chain.append(node)
            node = node.value if isinstance(node, ast.Attribute) else node.func
        found = self._start(node, scope)
        while chain and found:
            step = chain.pop()
            if isinstance(step, ast.Call):
                found = self.called(found, step, scope)
                continue
            names = [step.attr]
            while chain and isinstance(chain[-1], ast.Attribute):
                names.append(chain.pop().attr)
            found = self.attributes(found, names)
        return found

    def _start(self, node, scope):
        if isinstance(node, ast.Name):
            return self._name(node.id, scope)
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, scope)
        if isinstance(node, ast.IfExp):
            return self.union(self.of(n, scope) for n in (node.body, node.orelse))
        if isinstance(node, ast.BoolOp):
            return self.union(self.of(n, scope) for n in node.values)
        return self.unknown

    def _name(self, name, scope):
        owner = scope.find(name)
        if owner is not None:
            return self.bound(owner, name)
        return self.helper(HELPERS[name]) if name in HELPERS else self.unbound(name)

    @abc.abstractmethod
    def bound(self, owner: Scope, name: str) -> Any:
        """Return what a name stands for in the scope that binds it."""

    @abc.abstractmethod
    def helper(self, path: str) -> Any:
        """Return the answer for one of the functions in HELPERS."""

    @abc.abstractmethod
    def unbound(self, name: str) -> Any:
        """Return what a name stands for that nothing in sight binds."""

    @abc.abstractmethod
    def attributes(self, found: Any, names: list[str]) -> Any:
        """Return what `.a.b` of `found` stands for."""

    @abc.abstractmethod
    def called(self, found: Any, call: ast.Call, scope: Scope) -> Any:
        """Return what a call of `found` returns."""

    @abc.abstractmethod
    def union(self, parts: Iterable[Any]) -> Any:
        """Return the answer for what is one of several things."""
