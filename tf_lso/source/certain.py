"""What an expression stands for, and whether that is certain.

`tf_lso.source.values` says what is likely. This is stricter: a name is certain only if
every binding of it is known.
"""

import ast
from collections.abc import Iterable
from typing import NamedTuple

from tf_lso.source import reasons as left
from tf_lso.source.renaming import New, Settings, decide
from tf_lso.source.resolving import Resolver
from tf_lso.source.scopes import CLASS, Binding, Imported, Program, Scope, Site
from tf_lso.source.syntax import GETATTR, IMPORTS, imported, imported_paths


class Ref(NamedTuple):
    """One thing that an expression stands for."""

    path: str  # dotted, as the program spells it
    moved: bool  # whether it is tf_lso's own once the file is migrated
    origin: ast.Import | ast.ImportFrom | None = None  # what brings it
    scope: Scope | None = None  # where that import stands


class Found(NamedTuple):
    """All that an expression may stand for; `doubt` says why that may not be all."""

    refs: tuple[Ref, ...] = ()
    doubt: left.Reason | None = None


_NOTHING = Found()
_HIDDEN = Found((), left.SHADOWED)


class Certain(Resolver[Found]):
    """Answers, with a `Found`, for the expressions of one program."""

    unknown = _HIDDEN

    def __init__(self, program: Program, settings: Settings) -> None:
        self.program = program
        self.settings = settings
        self._names: dict[tuple[Scope, str], Found] = {}
        self._open: set[tuple[Scope, str]] = set()

    def paths(self, site: Site) -> list[str]:
        """Return the paths that an import or a chain of attributes leads to."""
        if isinstance(site.node, (ast.Import, ast.ImportFrom)):
            return imported_paths(site.node)
        return [ref.path for ref in self.of(site.node, site.scope).refs]

    def function(self, call: ast.Call, scope: Scope) -> str:
        """Return the path of the function that a call calls, or "" if not certain."""
        return _the_one(self.of(call.func, scope))

    def attributes(self, found: Found, names: list[str]) -> Found:
        """Return what a chain of attributes may be."""
        steps = ".".join(names)
        return Found(tuple(self._step(ref, steps) for ref in found.refs), found.doubt)

    def _step(self, ref: Ref, steps: str) -> Ref:
        path = f"{ref.path}.{steps}"
        return ref._replace(path=path, moved=ref.moved or self._moves(path))

    def _moves(self, path: str, imported: bool = False) -> bool:
        return isinstance(decide(path, self.settings, imported), New)

    def _helper(self, path: str) -> Found:
        return Found((Ref(path, False),))

    def _unbound(self, name: str) -> Found:
        return Found((), left.STAR if self.program.stars else left.UNBOUND)

    def _bound(self, owner: Scope, name: str) -> Found:
        key = owner, name
        if key in self._names:
            return self._names[key]
        if key in self._open:  # `x = x.y`: what x was before counts
            outer = self.program.module
            if owner.kind == CLASS and name in outer.names:
                return self._bound(outer, name)  # `tf = tf` in a class
            return _NOTHING
        self._open.add(key)
        found = self._union(map(self._binding, owner.names[name]))
        self._open.discard(key)
        if not self._open:
            self._names[key] = found
        return found

    def _binding(self, binding: Binding) -> Found:
        value = binding.value
        if isinstance(value, Imported):
            if not value.sure:
                return Found((), left.ELSEWHERE)
            moved = self._moves(value.path, True)
            return Found((Ref(value.path, moved, value.node, binding.scope),))
        if isinstance(value, ast.Constant) and value.value is None:
            return _NOTHING  # `except ImportError: tf = None`
        if isinstance(value, ast.expr):
            return self.of(value, binding.scope)
        return _HIDDEN

    def _called(self, found: Found, call: ast.Call, scope: Scope) -> Found:
        function = _the_one(found)
        if function == GETATTR and len(call.args) > 1:
            owner, asked = call.args[:2]
            if not isinstance(asked, ast.Constant) or not isinstance(asked.value, str):
                return Found((), left.DYNAMIC)
            return self.attributes(self.of(owner, scope), [asked.value])
        path = imported(call, function) if function in IMPORTS else ""
        return Found((Ref(path, self._moves(path)),)) if path else _HIDDEN

    def _union(self, parts: Iterable[Found]) -> Found:
        refs, doubt = [], None
        for found in parts:
            refs += [ref for ref in found.refs if ref not in refs]
            doubt = doubt or found.doubt
        return Found(tuple(refs), doubt)


def _the_one(found: Found) -> str:
    paths = {ref.path for ref in found.refs}
    return paths.pop() if len(paths) == 1 else ""
