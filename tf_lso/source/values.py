"""What the names and expressions of a program stand for, as dotted paths."""

import ast
from collections.abc import Iterable
from typing import NamedTuple

from tf_lso import names
from tf_lso.names.targets import TODAY, Target
from tf_lso.source import branches, lookup
from tf_lso.source.guards import Branch, Caught, Fallback
from tf_lso.source.resolving import KINDS, Resolver
from tf_lso.source.scopes import Binding, Derived, Imported, Program, Scope
from tf_lso.source.syntax import GETATTR, IMPORTS, imported, imported_paths


class Value(NamedTuple):
    """One thing that an expression may stand for."""

    path: str  # dotted, of a module, class or function
    instance: bool = False  # whether it is what a call of the path returns
    derived: bool = False  # whether it is a subclass of the path, or one's instance
    sure: bool = True  # False where it is only likely that the path is meant
    guarded: bool = False  # whether it comes from a place that the program passes over


NONE: frozenset[Value] = frozenset()

# Names that stand for TensorFlow if nothing in sight binds them, as after a `%run`.
_USUAL = {"tf": "tensorflow", "tensorflow": "tensorflow", "keras": "keras"}


def _is_kept(path: str) -> bool:
    return (
        lookup.is_known(path)
        or path in IMPORTS
        or path in ("importlib", "builtins")
        or (path.partition(".")[0] == "tf_lso" and path.count(".") < 8)
    )


def optimizer_of(value: Value) -> bool:
    """Whether the value is an instance of one of the old LossScaleOptimizers."""
    return value.instance and lookup.symbol(value.path) in names.OPTIMIZERS


class Values(Resolver[frozenset[Value]]):
    """The values of all names of a program: a fixed point over all its bindings."""

    def __init__(self, program: Program, target: Target = TODAY) -> None:
        self.program = program
        self.target = target
        self._table: dict[tuple[Scope, str], frozenset[Value]] = {}
        self._dead: dict[int, bool] = {}
        self._solve(guarded=False)
        guards = [
            guard
            for scope, name in self._table
            for binding in scope.names[name]
            for guard in binding.guards
        ]
        if guards:  # only now is it known which branches are taken
            for guard in guards:
                if not isinstance(guard, Caught):
                    self.is_dead(guard)
            self._table = {}
            self._solve(guarded=True)
        self._add_evidence()

    def _solve(self, guarded: bool) -> None:
        todo = [
            (scope, name, [b for b in bindings if type(b.value) in _LEADS])
            for scope in self.program.scopes
            for name, bindings in scope.names.items()
        ]
        todo = [item for item in todo if item[2]]
        changed = True
        while changed:  # it ends, since paths that lead nowhere are dropped
            changed = False
            for scope, name, bindings in todo:
                found = self._table.get((scope, name), NONE)
                for binding in bindings:
                    new = self._binding(binding)
                    if guarded and binding.guards:
                        new = frozenset(self._passed_over(v, binding) for v in new)
                    found |= new
                if found != self._table.get((scope, name), NONE):
                    self._table[scope, name] = found
                    changed = True

    def _passed_over(self, value: Value, binding: Binding) -> Value:
        """Mark a value that the program never binds here."""
        way = {value.path, lookup.parent(value.path)}
        missing = (
            not value.instance
            and not lookup.is_there(value.path, self.target)
            and not lookup.MODULES.keys().isdisjoint(way)
        )
        passed = any(
            missing if isinstance(guard, Caught) else self.is_dead(guard)
            for guard in binding.guards
        )
        return value._replace(guarded=True) if passed else value

    def is_dead(self, guard: Branch | Fallback) -> bool:
        """Whether the target's versions never run what stands under the guard."""
        if id(guard) not in self._dead:
            if isinstance(guard, Fallback):
                dead = self._succeeds(guard)
            else:
                taken = branches.outcome(guard.test, guard.scope, self)
                dead = taken is (not guard.taken)
            self._dead[id(guard)] = dead
        return self._dead[id(guard)]

    def _succeeds(self, fallback: Fallback) -> bool:
        """Whether what a `try` imports and reaches of TensorFlow is all there."""
        reached = []
        for node in (n for statement in fallback.body for n in ast.walk(statement)):
            if isinstance(node, ast.Import):
                reached += [(path, lookup.IMPORT) for path in imported_paths(node)]
            elif isinstance(node, ast.ImportFrom):
                module = "" if node.level else node.module
                reached += [(f"{module}.{a.name}", lookup.FROM) for a in node.names]
            elif isinstance(node, ast.Attribute):
                values = self.of(node, fallback.scope)
                reached += [(v.path, lookup.ACCESS) for v in values if not v.instance]
        known = False
        for path, how in reached:
            top = path.partition(".")[0]
            if how != lookup.ACCESS and top not in lookup.FRAMEWORKS:
                return False  # another library, which may be missing
            if lookup.is_known(path):
                verdict = lookup.of_path(path, how, self.target)
                there = lookup.is_there(path, self.target)
                if not there or (verdict and verdict.error):
                    return False
                known = True
        return known

    def _add_evidence(self) -> None:
        """Believe isinstance(name, LossScaleOptimizer)."""
        for scope, name, kind in self.program.evidence:
            owner = scope.find(name)
            kinds = (v._replace(instance=True) for v in self.of(kind, scope))
            found = frozenset(filter(optimizer_of, kinds))
            if owner and found:
                self._table[owner, name] = self._table.get((owner, name), NONE) | found

    def _binding(self, binding: Binding) -> frozenset[Value]:
        value = binding.value
        if isinstance(value, Imported):
            if not _is_kept(value.path):
                return NONE
            return frozenset({Value(value.path, sure=value.sure)})
        if isinstance(value, Derived):
            found = NONE.union(*(self.of(base, binding.scope) for base in value.bases))
            return frozenset(
                v._replace(derived=True, instance=value.instance)
                for v in found
                if lookup.symbol(v.path) or v.path.startswith("tf_lso.")
            )
        return self.of(value, binding.scope)

    unknown = NONE

    def _union(self, parts: Iterable[frozenset[Value]]) -> frozenset[Value]:
        return NONE.union(*parts)

    def _bound(self, owner: Scope, name: str) -> frozenset[Value]:
        return self._table.get((owner, name), NONE)

    def _helper(self, path: str) -> frozenset[Value]:
        return frozenset({Value(path)})

    def _unbound(self, name: str) -> frozenset[Value]:
        starred = (f"{module}.{name}" for module in self.program.stars)
        found = frozenset(Value(path) for path in starred if _is_kept(path))
        if not found and name in _USUAL:
            return frozenset({Value(_USUAL[name], sure=False)})
        return found

    def attributes(self, found: frozenset[Value], names: list[str]) -> frozenset[Value]:
        """Return what a chain of attributes may be."""
        for name in names:
            found = frozenset(
                value._replace(path=path)
                for value in found
                if not value.instance and not value.derived
                if _is_kept(path := f"{value.path}.{name}")
            )
        return found

    def _called(
        self, found: frozenset[Value], call: ast.Call, scope: Scope
    ) -> frozenset[Value]:
        returned: set[Value] = set()
        for value in found:
            if value.path == GETATTR and len(call.args) > 1:
                owner, name = call.args[:2]
                if isinstance(name, ast.Constant):
                    owners = self.of(owner, scope)
                    returned |= self.attributes(owners, [str(name.value)])
            elif value.path in IMPORTS:
                path = imported(call, value.path)
                if path and _is_kept(path):
                    returned.add(Value(path))
            elif not value.instance and (
                lookup.is_name(value.path) or value.path.startswith("tf_lso.")
            ):
                returned.add(value._replace(instance=True))
        return frozenset(returned)


# Bindings of other types lead nowhere.
_LEADS = {Imported, Derived, *KINDS}
