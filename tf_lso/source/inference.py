"""What the names and expressions of a program stand for: the one resolver.

It says what is likely, for reports, and whether that is certain, for edits: an answer has
values, each of which may be a guess, and a doubt where there may be others.
"""

import ast
import functools
from collections.abc import Callable, Iterable, Iterator

from tf_lso.names.keras3_names import KERAS_COPY
from tf_lso.names.targets import TODAY, Target
from tf_lso.source import guards, lookup, reasons, scopes, syntax
from tf_lso.source.program import Program
from tf_lso.source.scopes import Binding, Guard, Imported, Scope, Site
from tf_lso.source.syntax import IMPORT_STATEMENTS, literal
from tf_lso.source.values import Found, Stop, Value, union

_NOTHING = Found()
_HIDDEN = Found((), reasons.SHADOWED)
# Names that stand for TensorFlow if nothing in sight binds them, as after a `%run`.
_USUAL = {"tf": "tensorflow", "tensorflow": "tensorflow", "keras": "keras"}
# Where other Kerases than TensorFlow's own copy begin.
_KERASES = ("keras", "tf_keras", "tensorflow.keras", "tensorflow.compat")

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
        self._elsewhere = elsewhere or (lambda node, name: None)
        self._table: dict[tuple[Scope, str], Found] = {}
        self._open: set[tuple[Scope, str]] = set()  # the names that are being solved
        # What the target's versions decide about a test, and so about a guard.
        self.outcome = functools.cache(functools.partial(guards.outcome, self))

    @functools.cached_property
    def copy_only(self) -> bool:
        """Whether all of Keras in the program is the copy that TensorFlow keeps."""
        paths = self.program.imported
        copies = [path for path in paths if path.startswith(f"{KERAS_COPY}.")]
        others = [p for p in paths if p == "tensorflow" or p.startswith(_KERASES)]
        return not others and any(".mixed_precision" not in path for path in copies)

    @functools.cached_property
    def installed(self) -> scopes.Place | None:
        """The place of the first call of `tf_lso.install()` at the top."""
        calls = self.calls_of("tf_lso.install")
        top = (site.place for site in calls if not site.scope.function)
        return min(top, default=None)

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
        elif key in self._open and owner.kind == scopes.CLASS and owner.parent:
            # `tf = tf` in a class: the outer one is meant.
            return union([self._table[key], self._name(name, owner.parent)])
        return self._table[key]

    def _unbound(self, name: str) -> Found:
        if name in syntax.HELPERS:
            return Found((Value(syntax.HELPERS[name]),))
        starred = (f"{module}.{name}" for module in self.program.stars)
        found = tuple(Value(path) for path in starred if lookup.is_known(path))
        if not found and name in _USUAL:
            found = (Value(_USUAL[name], sure=False),)
        return Found(found, reasons.STAR if self.program.stars else reasons.UNBOUND)

    def _binding(self, binding: Binding) -> Found:
        value, scope, around = binding
        match value:
            case Imported():
                found = self._import(value, scope)
            case scopes.Derived(bases, instance):
                kinds = union(self.of(base, scope) for base in bases).values
                made = (
                    Value(kind.path, instance, True, kind.sure, kind.guarded)
                    for kind in kinds
                    if not kind.instance
                )
                found = Found(tuple(made), reasons.SHADOWED)
            case ast.Constant(None):
                found = _NOTHING  # as in `except ImportError: tf = None`
            case _:
                found = self.of(value, scope)
        return found.each(
            lambda v: v._replace(guarded=v.guarded or self._passes_over(v, around))
        )

    def _import(self, value: Imported, scope: Scope) -> Found:
        node = value.node
        if isinstance(node, ast.ImportFrom):
            if found := self._elsewhere(node, value.name):
                return found
        if value.path.startswith("."):  # relative
            return _HIDDEN
        stop = Stop(value.path, node, scope)
        doubt = None if value.sure else reasons.ELSEWHERE
        return Found((Value(value.path, sure=value.sure, stops=(stop,)),), doubt)

    def _passes_over(self, value: Value, around: Iterable[Guard]) -> bool:
        """Whether the program never binds the value at a place with these guards."""
        old = lookup.is_name(value.path) or value.path in lookup.MODULES
        there = value.instance or lookup.is_there(value.path, self.target)
        return any(
            old and not there
            if isinstance(guard, scopes.Caught)
            else self.outcome(guard) is False
            for guard in around
        )

    # --- Expressions.

    def values(self, node: ast.AST, scope: Scope) -> tuple[Value, ...]:
        """Return all that an expression in that scope is likely to stand for."""
        return self.of(node, scope).values

    def made(self, node: ast.AST, scope: Scope) -> list[Value]:
        """Return the objects that an expression is likely to be."""
        return [value for value in self.values(node, scope) if value.instance]

    def asked(self, site: Site) -> Iterator[tuple[ast.Attribute, bool]]:
        """Yield (attribute, whether it may be missing) that `getattr` or `hasattr` takes.

        Its name is "" where only a run tells it.
        """
        match site.node:
            case ast.Call(func, [owner, name, *default]):
                for value in self.values(func, site.scope):
                    if value.path in (syntax.GETATTR, syntax.HASATTR):
                        may_miss = value.path == syntax.HASATTR or bool(default)
                        asked = ast.Attribute(owner, literal(name) or "", ast.Load())
                        yield asked, may_miss

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
            return syntax.imported_paths(node)
        return [value.path for value in self.of(node, scope).certain]

    def of(self, node: ast.AST | None, scope: Scope) -> Found:
        """Return what an expression in that scope stands for."""
        # This is a loop, since a chain may be deeper than Python's stack.
        steps: list[ast.Call | list[ast.Attribute]] = []
        while isinstance(node, (ast.Attribute, ast.Call)):
            if isinstance(node, ast.Call):
                steps.append(node)
                node = node.func
            else:
                steps.append(chain := syntax.chain_of(node))
                node = chain[0].value
        found = self._start(node, scope)
        for step in reversed(steps):
            if found == _NOTHING:
                break
            if isinstance(step, ast.Call):
                found = self._called(found, step, scope)
            else:
                found = self._attribute(found, [part.attr for part in step], step[-1])
        return found

    def _start(self, node: ast.AST | None, scope: Scope) -> Found:
        match node:
            case ast.Name(name):
                return self._name(name, scope)
            case ast.NamedExpr(_, value):
                return self.of(value, scope)
            case ast.IfExp(_, body, orelse):
                return union([self.of(body, scope), self.of(orelse, scope)])
            case ast.BoolOp(_, parts):
                return union(self.of(part, scope) for part in parts)
        return _HIDDEN

    def _attribute(self, found: Found, steps: list[str], node: ast.AST) -> Found:
        """Return what the attributes of each value may be; `node` has them all."""

        def reached(value: Value) -> Value | None:
            stop = Stop(".".join([value.path, *steps]), node)
            stops = (*value.stops, stop)
            return value._replace(path=stop.path, stops=stops) if value.named else None

        return found.owners(steps[0]).each(reached)

    def _called(self, found: Found, call: ast.Call, scope: Scope) -> Found:
        function, given = _the_one(found), call.args
        if function == syntax.GETATTR and len(given) > 1:
            name = literal(given[1])
            if name is None:
                return Found((), reasons.DYNAMIC)
            return self._attribute(self.of(given[0], scope), [name], call)
        if function in syntax.IMPORTS and given and (path := literal(given[0])):
            if function == syntax.BUILTIN_IMPORT:  # it returns the package
                path = path.partition(".")[0]
            return Found((Value(path, stops=(Stop(path, call),)),))
        made = found._replace(doubt=reasons.SHADOWED)
        return made.each(lambda value: value._replace(instance=True, stops=()))


def _the_one(found: Found) -> str:
    paths = {value.path for value in found.certain}
    return paths.pop() if len(paths) == 1 else ""
