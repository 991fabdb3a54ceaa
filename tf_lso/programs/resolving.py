"""From an expression to what it stands for: the way there, whatever an answer is.

There are two kinds of answers. `values.Values` says what is likely, for reports;
`tf_lso.migrate.certain` says what is certain, for edits.
"""

import ast
from typing import Any

from tf_lso.programs.scopes import Scope
from tf_lso.programs.syntax import HELPERS

# Other expressions stand for nothing that is known.
KINDS = {ast.Attribute, ast.Call, ast.Name, ast.IfExp, ast.BoolOp, ast.NamedExpr}


class Resolver:
    """Takes an expression apart, and puts the answers for its parts together.

    A subclass gives the answers:
      unknown: for an expression of another kind.
      bound(owner, name): for a name that the scope `owner` binds.
      unbound(name): for a name that nothing in sight binds.
      helper(path): for one of the functions in HELPERS.
      attributes(found, names): for `.a.b` of what `found` is the answer for.
      called(found, call, scope): for a call of it.
      union(parts): for one of several things.
    """

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
