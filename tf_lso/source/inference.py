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
from tf_lso.source import guards, lookup, reasons
from tf_lso.source.scopes import (
    CLASS,
    Binding,
    Branch,
    Caught,
    Derived,
    Fallback,
    Guards,
    Imported,
    Program,
    Scope,
    Site,
)
from tf_lso.source.syntax import (
    BUILTIN_IMPORT,
    GETATTR,
    HELPERS,
    IMPORT_STATEMENTS,
    IMPORTS,
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
        return self.node if isinstance(self.node, IMPORT_STATEMENTS) else None


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
    """The answers for all names of a program, each worked out when it is asked for."""

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
        self._open: set[tuple[Scope, str]] = set()  # the names that are being solved
        # Whether the target's versions never run what stands under a guard.
        self.is_dead = functools.cache(self._is_dead)

    @functools.cached_property
    def copy_only(self) -> bool:
        """Whether all of Keras in the program is the copy that TensorFlow keeps."""
        paths = self.program.imported
        copies = [path for path in paths if path.startswith(f"{KERAS_COPY}.")]
        return any(".mixed_precision" not in path for path in copies) and not any(
            path == "tensorflow" or path.startswith(_KERASES) for path in paths
        )

    # --- Names.

    def _name(self, name: str, scope: Scope) -> Found:
        owner = scope.find(name)
        if owner is None:
            return self._unbound(name)
        key = owner, name
        if key not in self._table:
            self._open.add(key)
            self._table[key] = _NOTHING  # `x = x.y`: what is known of it until then
            for binding in owner.names[name]:
                self._table[key] = union([self._table[key], self._binding(binding)])
            self._open.remove(key)
        elif key in self._open and owner.kind == CLASS and owner.parent:
            # `tf = tf` in a class: the outer one is meant.
            return union([self._table[key], self._name(name, owner.parent)])
        return self._table[key]

    def _unbound(self, name: str) -> Found:
        if name in HELPERS:
            return Found((Value(HELPERS[name]),))
        starred = (f"{module}.{name}" for module in self.program.stars)
        found = tuple(Value(path) for path in starred if lookup.is_known(path))
        if not found and name in _USUAL:
            found = (Value(_USUAL[name], sure=False),)
        return Found(found, reasons.STAR if self.program.stars else reasons.UNBOUND)

    def _binding(self, binding: Binding) -> Found:
        value, scope, around = binding
        if isinstance(value, Imported):
            found = self._import(value, scope)
        elif isinstance(value, Derived):
            kinds = union(self.of(base, scope) for base in value.bases)
            values = (
                v._replace(derived=True, instance=value.instance, stops=())
                for v in kinds.values
                if not v.instance
            )
            found = Found(tuple(values), reasons.SHADOWED)
        elif isinstance(value, ast.Constant) and value.value is None:
            found = _NOTHING  # as in `except ImportError: tf = None`
        else:
            found = self.of(value, scope)
        if around and found.values:
            values = (
                v._replace(guarded=True) if self._passes_over(v, around) else v
                for v in found.values
            )
            found = found._replace(values=tuple(values))
        return found

    def _import(self, value: Imported, scope: Scope) -> Found:
        node = value.node
        if self._elsewhere and isinstance(node, ast.ImportFrom):
            found = self._elsewhere(node, value.name)
            if found is not None:
                return found
        if not value.path:  # relative
            return _HIDDEN
        stop = Stop(value.path, node, scope)
        doubt = None if value.sure else reasons.ELSEWHERE
        return Found((Value(value.path, sure=value.sure, stops=(stop,)),), doubt)

    def _passes_over(self, value: Value, around: Guards) -> bool:
        """Whether the program never binds the value at a place with these guards."""
        old = lookup.is_name(value.path) or value.path in lookup.MODULES
        missing = old and not (
            value.instance or lookup.is_there(value.path, self.target)
        )
        dead = (
            missing if isinstance(guard, Caught) else self.is_dead(guard)
            for guard in around
        )
        return any(dead)

    # --- Guards.

    def _is_dead(self, guard: Branch | Fallback) -> bool:
        if isinstance(guard, Fallback):
            return self._succeeds(guard)
        return guards.outcome(guard.test, guard.scope, self) is (not guard.taken)

    def _succeeds(self, fallback: Fallback) -> bool:
        """Whether what a `try` imports and reaches of TensorFlow is all there."""
        known = False
        for node in (n for statement in fallback.body for n in ast.walk(statement)):
            paths: list[str] = []
            if isinstance(node, IMPORT_STATEMENTS):
                paths = imported_paths(node)
                how = lookup.IMPORT if isinstance(node, ast.Import) else lookup.FROM
                if not all(p.partition(".")[0] in lookup.FRAMEWORKS for p in paths):
                    return False  # another library, which may be missing
            elif isinstance(node, ast.Attribute):
                values, how = self.values(node, fallback.scope), lookup.ACCESS
                paths = [value.path for value in values if not value.instance]
            for path in filter(lookup.is_known, paths):
                verdict = lookup.of_path(path, how, self.target)
                if not lookup.is_there(path, self.target) or (
                    verdict and verdict.error
                ):
                    return False
                known = True
        return known

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
        if isinstance(node, IMPORT_STATEMENTS):
            return imported_paths(node)
        return [value.path for value in self.of(node, scope).certain]

    def of(self, node: ast.AST | None, scope: Scope) -> Found:
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

    def _start(self, node: ast.AST | None, scope: Scope) -> Found:
        match node:
            case ast.Name(id=name):
                return self._name(name, scope)
            case ast.NamedExpr(value=value):
                return self.of(value, scope)
            case ast.IfExp(body=body, orelse=orelse):
                return union([self.of(body, scope), self.of(orelse, scope)])
            case ast.BoolOp(values=parts):
                return union(self.of(part, scope) for part in parts)
        return _HIDDEN

    def attributes(
        self, found: Found, steps: list[str], node: ast.AST | None = None
    ) -> Found:
        """Return what a chain of attributes may be; `node` is its last one."""
        path = ".".join(steps)
        values = []
        for value in found.values:
            if not value.instance and not value.derived:
                stop = Stop(f"{value.path}.{path}", node)
                stops = (*value.stops, stop)
                values.append(value._replace(path=stop.path, stops=stops))
        return found._replace(values=tuple(values))

    def _called(self, found: Found, call: ast.Call, scope: Scope) -> Found:
        function = _the_one(found)
        if function == GETATTR and len(call.args) > 1:
            owner, asked = call.args[:2]
            name = literal(asked)
            if name is None:
                return Found((), reasons.DYNAMIC)
            return self.attributes(self.of(owner, scope), [name], call)
        if function in IMPORTS and (path := literal(call.args[0]) if call.args else ""):
            if function == BUILTIN_IMPORT:  # it returns the package
                path = path.partition(".")[0]
            return Found((Value(path, stops=(Stop(path, call),)),))
        made = (v._replace(instance=True, stops=()) for v in found.values)
        return Found(tuple(made), reasons.SHADOWED)


def _the_one(found: Found) -> str:
    paths = {value.path for value in found.certain}
    return paths.pop() if len(paths) == 1 else ""
