"""What a name or an expression stands for, and whether that is certain.

Stricter than `tf_lso.check.values`, which reports what is likely: a name is certain only
where every binding of it is known.
"""

import ast
from typing import NamedTuple

from tf_lso.check.scopes import CLASS, Imported, Program, Scope
from tf_lso.check.values import IMPORTS, imported
from tf_lso.migrate import left
from tf_lso.migrate.paths import New, Settings, decide


class Ref(NamedTuple):
    """One thing that an expression stands for.

    Attributes:
      path: dotted path, as the program spells it.
      moved: whether it is tf_lso's own once the file is migrated.
      origin: the import that it comes from, or None.
      scope: the scope in which that import stands, or None.
    """

    path: str
    moved: bool
    origin: ast.stmt | None = None
    scope: Scope | None = None


class Found(NamedTuple):
    """All that an expression may stand for; `doubt` says why that may not be all."""

    refs: tuple[Ref, ...] = ()
    doubt: str = ""


_NOTHING = Found()


class Resolver:
    """Answers for the expressions of one program."""

    def __init__(self, program: Program, settings: Settings) -> None:
        self.program = program
        self.settings = settings
        self._names: dict[tuple[Scope, str], Found] = {}
        self._open: set[tuple[Scope, str]] = set()

    def of(self, node: ast.AST, scope: Scope) -> Found:
        """Return what an expression in that scope stands for."""
        attributes = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        method = _METHODS.get(type(node))
        found = method(self, node, scope) if method else Found((), left.SHADOWED)
        if not attributes or not found.refs:
            return found
        steps = ".".join(reversed(attributes))
        return Found(tuple(self._step(ref, steps) for ref in found.refs), found.doubt)

    def _step(self, ref, steps):
        path = f"{ref.path}.{steps}"
        moved = ref.moved or isinstance(decide(path, self.settings), New)
        return ref._replace(path=path, moved=moved)

    def _name(self, node, scope):
        owner = scope.find(node.id)
        if owner is None:
            return Found((), left.STAR if self.program.stars else left.UNBOUND)
        key = owner, node.id
        if key in self._names:
            return self._names[key]
        if key in self._open:  # a name made from itself: what it was made from counts
            outer = self.program.module
            if owner.kind == CLASS and node.id in outer.names:
                return self._name(node, outer)  # `tf = tf`, as a class may say
            return _NOTHING
        self._open.add(key)
        found = _union(map(self._bound, owner.names[node.id]))
        self._open.discard(key)
        if not self._open:
            self._names[key] = found
        return found

    def _bound(self, binding):
        value = binding.value
        if isinstance(value, Imported):
            if not value.sure:
                return Found((), left.ELSEWHERE)
            moved = isinstance(decide(value.path, self.settings, True), New)
            return Found((Ref(value.path, moved, value.node, binding.scope),))
        if isinstance(value, ast.Constant) and value.value is None:
            return _NOTHING  # `except ImportError: tf = None`
        if isinstance(value, ast.expr):
            return self.of(value, binding.scope)
        return Found((), left.SHADOWED)

    def _call(self, node, scope):
        name = getattr(node.func, "id", "")
        if name == "getattr" and scope.find(name) is None and len(node.args) > 1:
            owner, asked = node.args[:2]
            found = self.of(owner, scope)
            if not isinstance(asked, ast.Constant) or not isinstance(asked.value, str):
                return Found((), left.DYNAMIC)
            refs = tuple(self._step(ref, asked.value) for ref in found.refs)
            return Found(refs, found.doubt)
        path = (
            imported(node, function) if (function := self.importer(node, scope)) else ""
        )
        if path:
            return Found((Ref(path, isinstance(decide(path, self.settings), New)),))
        return Found((), left.SHADOWED)

    def importer(self, node: ast.Call, scope: Scope) -> str:
        """Return which of IMPORTS a call calls, or ""."""
        if isinstance(node.func, ast.Name) and node.func.id == "__import__":
            return IMPORTS[0] if scope.find("__import__") is None else ""
        found = self.of(node.func, scope)
        paths = {ref.path for ref in found.refs}
        return IMPORTS[1] if paths == {IMPORTS[1]} else ""

    def _either(self, node, scope):
        return _union(self.of(part, scope) for part in (node.body, node.orelse))

    def _any(self, node, scope):
        return _union(self.of(part, scope) for part in node.values)

    def _named(self, node, scope):
        return self.of(node.value, scope)


def _union(parts):
    refs, doubt = [], ""
    for found in parts:
        refs += [ref for ref in found.refs if ref not in refs]
        doubt = doubt or found.doubt
    return Found(tuple(refs), doubt)


_METHODS = {
    ast.Name: Resolver._name,
    ast.Call: Resolver._call,
    ast.IfExp: Resolver._either,
    ast.BoolOp: Resolver._any,
    ast.NamedExpr: Resolver._named,
}
