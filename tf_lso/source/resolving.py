"""Finds what an expression stands for: the one resolver of `check` and `migrate`.

There are two kinds of answers. `values.Values` says what is likely, for reports.
`tf_lso.source.certain` says what is certain, for edits.
"""

import abc
import ast
from collections.abc import Iterable
from typing import Generic, TypeVar

from tf_lso.source.scopes import Scope
from tf_lso.source.syntax import HELPERS

# The expressions that it takes apart.
KINDS = {ast.Attribute, ast.Call, ast.Name, ast.IfExp, ast.BoolOp, ast.NamedExpr}

Answer = TypeVar("Answer")


class Resolver(abc.ABC, Generic[Answer]):
    """Takes an expression apart and joins the answers for its parts."""

    unknown: Answer  # for all other expressions

    @abc.abstractmethod
    def _bound(self, owner: Scope, name: str) -> Answer:
        """Return the answer for a name that the scope `owner` binds."""

    @abc.abstractmethod
    def _unbound(self, name: str) -> Answer:
        """Return the answer for a name that nothing in sight binds."""

    @abc.abstractmethod
    def _helper(self, path: str) -> Answer:
        """Return the answer for one of the functions in HELPERS."""

    @abc.abstractmethod
    def attributes(self, found: Answer, names: list[str]) -> Answer:
        """Return the answer for a chain of attributes of it."""

    @abc.abstractmethod
    def _called(self, found: Answer, call: ast.Call, scope: Scope) -> Answer:
        """Return the answer for a call of it."""

    @abc.abstractmethod
    def _union(self, parts: Iterable[Answer]) -> Answer:
        """Return the answer for one of several things."""

    def of(self, node: ast.AST, scope: Scope) -> Answer:
        """Return what an expression in that scope stands for."""
        # This is a loop, since a chain may be deeper than Python's stack.
        chain: list[ast.Attribute | ast.Call] = []
        while isinstance(node, (ast.Attribute, ast.Call)):
            chain.append(node)
            node = node.value if isinstance(node, ast.Attribute) else node.func
        found = self._start(node, scope)
        while chain and found:
            step = chain.pop()
            if isinstance(step, ast.Call):
                found = self._called(found, step, scope)
                continue
            names = [step.attr]
            while chain and isinstance(above := chain[-1], ast.Attribute):
                names.append(above.attr)
                chain.pop()
            found = self.attributes(found, names)
        return found

    def _start(self, node: ast.AST, scope: Scope) -> Answer:
        if isinstance(node, ast.Name):
            return self._name(node.id, scope)
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, scope)
        if isinstance(node, ast.IfExp):
            return self._union(self.of(n, scope) for n in (node.body, node.orelse))
        if isinstance(node, ast.BoolOp):
            return self._union(self.of(n, scope) for n in node.values)
        return self.unknown

    def _name(self, name: str, scope: Scope) -> Answer:
        owner = scope.find(name)
        if owner is not None:
            return self._bound(owner, name)
        return self._helper(HELPERS[name]) if name in HELPERS else self._unbound(name)
