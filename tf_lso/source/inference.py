"""What the names and expressions of a program stand for: the one resolver.

It says what is likely, for reports, and whether that is certain, for edits: an answer has
values, each of which may be a guess, and a doubt where there may be others.
"""

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tf_lso import names
from tf_lso.names.keras3_names import KERAS_COPY
from tf_lso.names.targets import TODAY, Target
from tf_lso.source import branches, lookup, reasons
from tf_lso.source.guards import Branch, Caught, Fallback
from tf_lso.source.scopes import CLASS, Binding, Derived, Imported, Program, Scope, Site
from tf_lso.source.syntax import (
    GETATTR,
    HELPERS,
    IMPORTS,
    imported,
    imported_paths,
    literal,
)


class Stop(NamedTuple):
    """A place at which a value gets a name: an import, or a chain that is assigned."""

    path: str
    node: ast.AST | None = None
    scope: Scope | None = None

    @property
    def imports(self) -> ast.Import | ast.ImportFrom | None:
        """The import statement, if one stands there."""
        node = self.node
        return node if isinstance(node, (ast.Import, ast.ImportFrom)) else None


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
        return self.stops[0].imports if self.stops else None


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


_NOTHING = Found()
_HIDDEN = Found((), reasons.SHADOWED)
# Names that stand for TensorFlow if nothing in sight binds them, as after a `%run`.
_USUAL = {"tf": "tensorflow", "tensorflow": "tensorflow", "keras": "keras"}
# Where other Kerases than TensorFlow's own copy begin.
_KERASES = ("keras", "tf_keras", "tensorflow.keras", "tensorflow.compat")
# The expressions that are taken apart; bindings of other types lead nowhere.
_KINDS = {ast.Attribute, ast.Call, ast.Name, ast.IfExp, ast.BoolOp, ast.NamedExpr}
_LEADS = {Imported, Derived, *_KINDS}
_DEEPEST = 8  # parts of a path: `x = x.y` in a loop has no end


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


# Returns what another file of the program binds a name to: (import, name) -> answer.
Elsewhere = Callable[[ast.ImportFrom, str], Found | None]


class Inference:
    """The answers for all names of a program: a fixed point over all its bindings."""

    def __init__(
        self,
        program: Program,
        target: Target = TODAY,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.program = program
        self.target = target
        self._elsewhere = elsewhere
        self._table: dict[tuple[Scope, str], Found] = {}
        self._open: tuple[Scope, str] | None = None  # the name that is being solved
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

    @functools.cached_property
    def copy_only(self) -> bool:
        """Whether all of Keras in the program is the copy that TensorFlow keeps."""
        imports = (ast.Import, ast.ImportFrom)
        sites = (s for s in self.program.sites if isinstance(s.node, imports))
        paths = [path for site in sites for path in imported_paths(site.node)]
        copies = [path for path in paths if path.startswith(f"{KERAS_COPY}.")]
        return any(".mixed_precision" not in path for path in copies) and not any(
            path == "tensorflow" or path.startswith(_KERASES) for path in paths
        )

    # --- Names.

    def _solve(self, guarded: bool) -> None:
        todo = []
        for scope in self.program.scopes:
            for name, bindings in scope.names.items():
                leads = [b for b in bindings if type(b.value) in _LEADS]
                if any(map(_is_doubtful, bindings)):
                    self._table[scope, name] = _HIDDEN
                if leads:
                    todo.append((scope, name, leads))
        changed = True
        while changed:  # it ends, since paths have no more than so many parts
            changed = False
            for scope, name, bindings in todo:
                before = self._table.get((scope, name), _NOTHING)
                self._open = scope, name
                parts = [before]
                for binding in bindings:
                    new = self._binding(binding)
                    if guarded and binding.guards:
                        marked = (self._passed_over(v, binding) for v in new.values)
                        new = new._replace(values=tuple(marked))
                    parts.append(new)
                found = union(parts)
                if found != before:
                    self._table[scope, name] = found
                    changed = True
        self._open = None

    def _binding(self, binding: Binding) -> Found:
        value = binding.value
        if isinstance(value, Imported):
            return self._import(value, binding.scope)
        if isinstance(value, Derived):
            found = union(self.of(base, binding.scope) for base in value.bases)
            kept = (
                v._replace(derived=True, instance=value.instance, stops=())
                for v in found.values
                if lookup.symbol(v.path) or v.path.startswith("tf_lso.")
            )
            return Found(tuple(kept), reasons.SHADOWED)
        return self.of(value, binding.scope)

    def _import(self, value: Imported, scope: Scope) -> Found:
        node = value.node
        if self._elsewhere and isinstance(node, ast.ImportFrom):
            found = self._elsewhere(node, value.name)
            if found is not None:
                return found
        if not value.path:  # relative
            return _HIDDEN
        stop = Stop(value.path, node, scope)
        found = Found((Value(value.path, sure=value.sure, stops=(stop,)),))
        return found if value.sure else found._replace(doubt=reasons.ELSEWHERE)

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
                values = self.values(node, fallback.scope)
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
            kinds = (
                v._replace(instance=True, stops=()) for v in self.values(kind, scope)
            )
            found = tuple(filter(optimizer_of, kinds))
            if owner and found:
                known = self._table.get((owner, name), _NOTHING)
                self._table[owner, name] = union([known, Found(found)])

    # --- Expressions.

    def values(self, node: ast.AST, scope: Scope) -> tuple[Value, ...]:
        """Return all that an expression in that scope is likely to stand for."""
        return self.of(node, scope).values

    def function(self, call: ast.Call, scope: Scope) -> str:
        """Return the path of the function that a call calls, or "" if not certain."""
        return _the_one(self.of(call.func, scope))

    def calls_of(self, path: str) -> Iterator[Site]:
        """Yield the calls that may be of the function of that path."""
        for site in self.program.sites:
            if isinstance(site.node, ast.Call):
                if path in self.paths(site.node.func, site.scope):
                    yield site

    def paths(self, node: ast.AST, scope: Scope) -> list[str]:
        """Return the paths that an import or a chain of attributes leads to."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return imported_paths(node)
        return [value.path for value in self.of(node, scope).certain]

    def origins(
        self, node: ast.AST, scope: Scope, depth: int = 5
    ) -> Iterator[tuple[ast.AST, Scope]]:
        """Yield an expression, and those that the names in it are bound to, with scopes."""
        yield node, scope
        name = node.id if isinstance(node, ast.Name) and depth else ""
        owner = scope.find(name)
        for value, where, _ in owner.names[name] if owner else ():
            below = [value] if isinstance(value, ast.expr) else []
            if isinstance(value, Derived) and not value.instance:
                below = list(value.bases)
            for expression in below:
                yield from self.origins(expression, where, depth - 1)
        for part in (node.body, node.orelse) if isinstance(node, ast.IfExp) else ():
            yield from self.origins(part, scope, depth)

    def of(self, node: ast.AST, scope: Scope) -> Found:
        """Return what an expression in that scope stands for."""
        # This is a loop, since a chain may be deeper than Python's stack.
        chain: list[ast.Attribute | ast.Call] = []
        while isinstance(node, (ast.Attribute, ast.Call)):
            chain.append(node)
            node = node.value if isinstance(node, ast.Attribute) else node.func
        found = self._start(node, scope)
        while chain and (found.values or found.doubt):
            step = chain.pop()
            if isinstance(step, ast.Call):
                found = self._called(found, step, scope)
                continue
            steps = [step.attr]
            while chain and isinstance(above := chain[-1], ast.Attribute):
                steps.append(above.attr)
                step = above
                chain.pop()
            found = self.attributes(found, steps, step)
        return found

    def _start(self, node: ast.AST, scope: Scope) -> Found:
        if isinstance(node, ast.Name):
            return self._name(node.id, scope)
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, scope)
        if isinstance(node, ast.IfExp):
            return union(self.of(n, scope) for n in (node.body, node.orelse))
        if isinstance(node, ast.BoolOp):
            return union(self.of(n, scope) for n in node.values)
        return _HIDDEN

    def _name(self, name: str, scope: Scope) -> Found:
        owner = scope.find(name)
        if owner is None:
            if name in HELPERS:
                return Found((Value(HELPERS[name]),))
            return self._unbound(name)
        found = self._table.get((owner, name), _NOTHING)
        if (owner, name) == self._open and owner.kind == CLASS:
            # `tf = tf` in a class: the outer one is meant.
            outer = self._table.get((self.program.module, name), _NOTHING)
            return union([found, outer])
        return found

    def _unbound(self, name: str) -> Found:
        starred = (f"{module}.{name}" for module in self.program.stars)
        found = tuple(Value(path) for path in starred if lookup.is_known(path))
        if not found and name in _USUAL:
            found = (Value(_USUAL[name], sure=False),)
        return Found(found, reasons.STAR if self.program.stars else reasons.UNBOUND)

    def attributes(
        self, found: Found, steps: list[str], node: ast.AST | None = None
    ) -> Found:
        """Return what a chain of attributes may be; `node` is its last one."""
        path = ".".join(steps)
        values = (
            value._replace(
                path=f"{value.path}.{path}",
                stops=(*value.stops, Stop(f"{value.path}.{path}", node)),
            )
            for value in found.values
            if not value.instance and not value.derived
            if value.path.count(".") + len(steps) < _DEEPEST
        )
        return found._replace(values=tuple(values))

    def _called(self, found: Found, call: ast.Call, scope: Scope) -> Found:
        function = _the_one(found)
        if function == GETATTR and len(call.args) > 1:
            owner, asked = call.args[:2]
            name = literal(asked)
            if name is None:
                return Found((), reasons.DYNAMIC)
            return self.attributes(self.of(owner, scope), [name], call)
        path = imported(call, function) if function in IMPORTS else ""
        if path:
            return Found((Value(path, stops=(Stop(path, call),)),))
        made = tuple(
            value._replace(instance=True, stops=())
            for value in found.values
            if not value.instance
            if lookup.is_name(value.path) or value.path.startswith("tf_lso.")
        )
        return Found(made, reasons.SHADOWED)


def _is_doubtful(binding: Binding) -> bool:
    """Whether a binding may be anything. `except ImportError: tf = None` is not."""
    value = binding.value
    if isinstance(value, ast.Constant):
        return value.value is not None
    return type(value) not in _LEADS


def _the_one(found: Found) -> str:
    paths = {value.path for value in found.certain}
    return paths.pop() if len(paths) == 1 else ""
