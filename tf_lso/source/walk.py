"""One pass over a syntax tree: what it binds, its places of interest, their guards."""

import ast
import builtins
from collections.abc import Iterable, Iterator
from typing import Any

from tf_lso.names import old_behaviors
from tf_lso.source import scopes
from tf_lso.source.scopes import CLASS, FUNCTION, MODULE, Derived, Imported, Site
from tf_lso.source.syntax import chain_of, imported_paths, last_name, listed, literal

# What the uses that are reported raise. Other exceptions do not matter.
_ERRORS = (ModuleNotFoundError, ImportError, AttributeError, TypeError, ValueError)
# By these names, modules pass TensorFlow on.
_HANDED_ON = ("tf", "tensorflow")
# Parts of the dotted names of the old modules.
_SPELLING = ("mixed_precision", "train.experimental", "training.experimental")


def walk(program: scopes.Program, tree: ast.Module, cell: int | None = None) -> None:
    """Take the tree into the program. Its own stack takes trees of any depth."""
    notes = _Notes(program)
    stack = [Site(tree, program.module, (), cell)]
    while stack:
        at = stack.pop()
        note = getattr(notes, f"_{type(at.node).__name__.lower()}", None)
        steps = note(at) if note else None
        if steps is None:
            steps = at.each(ast.iter_child_nodes(at.node))
        stack += reversed(steps)


def _others(node: ast.AST, *taken: ast.AST) -> list[ast.AST]:
    """Return what is directly in a node, without some of it."""
    return [part for part in ast.iter_child_nodes(node) if part not in {*taken}]


def _body(part: Any) -> list[Any]:
    """Return the statements of a branch or function, or its one expression."""
    return part if isinstance(part, list) else [part]


def _pairs(target: Any, value: Any) -> Iterator[tuple[ast.Name, Any]]:
    """Yield (name, its expression) of an assignment, also of tuples to tuples."""
    match target, value:
        case ast.Name(), _:
            yield target, value
        case (
            (ast.Tuple(names) | ast.List(names)),
            (ast.Tuple(given) | ast.List(given)),
        ):
            starred = any(isinstance(n, ast.Starred) for n in [*names, *given])
            if not starred and len(names) == len(given):
                for pair in zip(names, given):
                    yield from _pairs(*pair)


def _ends_loudly(body: Iterable[ast.AST]) -> bool:
    """Whether the statements raise, so that the program does not go on in silence."""
    return any(isinstance(statement, ast.Raise) for statement in body)


def _caught(
    types: Iterable[ast.expr | None], raises: bool = False
) -> scopes.Caught | None:
    """Return what catches these exceptions, or None where none of them matters.

    None stands for the type of a bare `except`, which catches all.
    """
    names = (last_name(n) if n else "BaseException" for t in types for n in listed(t))
    kinds = [getattr(builtins, name, None) for name in names]
    classes = tuple(kind for kind in kinds if isinstance(kind, type))
    errors = frozenset(e.__name__ for e in _ERRORS if issubclass(e, classes))
    return scopes.Caught(errors, raises) if errors else None


class _Notes:
    """Each method is for the nodes that its name is made of, with their place.

    It returns how to go on, or None for: with all that is in the node.
    """

    def __init__(self, program: scopes.Program) -> None:
        self.program = program
        self.paired: set[int] = set()  # ids of names that are bound already

    # --- What binds names.

    def _import(self, at: Site) -> None:
        self._imports(at)
        for alias in at.node.names:
            top = alias.name.partition(".")[0]
            value = Imported(alias.name if alias.asname else top, at.node)
            at.bind(alias.asname or top, value)

    def _importfrom(self, at: Site) -> None:
        node = at.node
        module = node.module if not node.level else None
        if module:
            self._imports(at)
        for alias in node.names:
            if alias.name == "*":
                self.program.stars.append(module or "")
                continue
            self._word(alias.name, at)
            path = f"{module}.{alias.name}" if module else ""
            guess = alias.name in _HANDED_ON and module != "tensorflow"
            path = "tensorflow" if guess else path
            at.bind(
                alias.asname or alias.name,
                Imported(path, node, alias.name, sure=not guess),
            )

    def _imports(self, at: Site) -> None:
        self.program.sites.append(at)
        paths = imported_paths(at.node)
        self.program.imported += paths
        self.program.packages.update(path.partition(".")[0] for path in paths)

    def _functiondef(self, at: Site) -> list[Site]:
        at._replace(guards=()).bind(at.node.name)
        return self._lambda(at)

    _asyncfunctiondef = _functiondef

    def _lambda(self, at: Site) -> list[Site]:
        node, body = at.node, _body(at.node.body)
        # The body runs outside of the `try` around it.
        outside = tuple(g for g in at.guards if not isinstance(g, scopes.Caught))
        inside = self._inner(FUNCTION, at)._replace(guards=outside)
        method = at.scope.kind == CLASS and not getattr(node, "decorator_list", True)
        value = Derived(tuple(at.scope.node.bases), instance=True) if method else None
        for arg in ast.iter_child_nodes(node.args):
            if isinstance(arg, ast.arg):
                known = scopes.Binding(value, at.scope)
                inside.scope.names[arg.arg].append(known)
                value = None  # only the first one is `self`
        return at.each(_others(node, *body)) + inside.each(body)

    def _classdef(self, at: Site) -> list[Site]:
        node = at.node
        self.program.sites.append(at)
        at.bind(node.name, Derived(tuple(node.bases)))
        inside = self._inner(CLASS, at)
        return at.each(_others(node, *node.body)) + inside.each(node.body)

    def _inner(self, kind: str, at: Site) -> Site:
        """Return the same place in a new scope."""
        self.program.scopes.append(scopes.Scope(kind, at.scope, at.node))
        return at._replace(scope=self.program.scopes[-1])

    def _listcomp(self, at: Site) -> list[Site]:
        first, *more = at.node.generators
        rest = [*_others(at.node, first, *more), *_others(first, first.iter), *more]
        return at.each([first.iter]) + self._inner(scopes.COMPREHENSION, at).each(rest)

    _setcomp = _dictcomp = _generatorexp = _listcomp

    def _assign(self, at: Site) -> None:
        node, owner = at.node, at.scope
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.NamedExpr):  # it binds outside of its comprehension
            owner = owner.enclosing(FUNCTION, CLASS, MODULE) or owner
        for name, value in (pair for t in targets for pair in _pairs(t, node.value)):
            at.bind(name.id, value, owner)
            self.paired.add(id(name))

    _annassign = _namedexpr = _assign

    def _name(self, at: Site) -> None:
        if not isinstance(at.node.ctx, ast.Load) and id(at.node) not in self.paired:
            at.bind(at.node.id)

    def _excepthandler(self, at: Site) -> None:
        if at.node.name:
            at.bind(at.node.name)

    _matchas = _matchstar = _excepthandler

    def _global(self, at: Site) -> None:
        kind = "global" if isinstance(at.node, ast.Global) else "nonlocal"
        if at.scope.kind != MODULE:
            at.scope.elsewhere.update(dict.fromkeys(at.node.names, kind))

    _nonlocal = _global

    # --- Guards.

    def _try(self, at: Site) -> list[Site]:
        node, types = at.node, [handler.type for handler in at.node.handlers]
        raises = all(_ends_loudly(handler.body) for handler in node.handlers)
        found = at.each(node.body, _caught(types, raises))
        fallback = scopes.Fallback(tuple(node.body), at.scope)
        for handler in node.handlers:
            catches = _caught([handler.type])
            found += at.each([handler], fallback if catches else None)
        return found + at.each((*node.orelse, *node.finalbody))

    _trystar = _try

    def _with(self, at: Site) -> list[Site]:
        calls = (item.context_expr for item in at.node.items)
        suppress = (c for c in calls if last_name(getattr(c, "func", 0)) == "suppress")
        caught = _caught(argument for call in suppress for argument in call.args)
        return at.each(at.node.items) + at.each(at.node.body, caught)

    _asyncwith = _with

    def _if(self, at: Site) -> list[Site]:
        node, test = at.node, at.node.test
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        if _ends_loudly(_body(node.body if negated else node.orelse)):
            self._assert(at)
        return [
            *at.each([test]),
            *at.each(_body(node.body), scopes.Branch(test, at.scope, True)),
            *at.each(_body(node.orelse), scopes.Branch(test, at.scope, False)),
        ]

    _ifexp = _while = _if

    def _boolop(self, at: Site) -> list[Site]:
        found, taken = [], isinstance(at.node.op, ast.And)
        for value in at.node.values:
            found += at.each([value])
            (at,) = at.each([value], scopes.Branch(value, at.scope, taken))
        return found

    def _assert(self, at: Site) -> None:
        self.program.loud.update(map(id, ast.walk(at.node.test)))

    # --- Places of interest.

    def _attribute(self, at: Site) -> list[Site]:
        self.program.sites.append(at)
        chain = chain_of(at.node)
        base = chain[0].value
        for word in (last_name(base), *(part.attr for part in chain)):
            self._word(word, at)
        if not isinstance(at.node.ctx, ast.Load):
            self.program.stored.add(at.node.attr)
        return at.each([base])

    def _call(self, at: Site) -> None:
        node, program = at.node, self.program
        program.sites.append(at)
        program.calls[id(node.func)] = node
        match node:
            case ast.Call(
                ast.Name("isinstance" | "issubclass" as function), [one, kinds, *_]
            ):
                program.type_tests.update(map(id, listed(kinds)))
                if function == "isinstance" and isinstance(one, ast.Name):
                    program.evidence += ((at, one.id, kind) for kind in listed(kinds))
            case ast.Call(
                ast.Name("getattr" | "hasattr" as function), [owner, asked, *_]
            ):
                program.quiet.add(id(owner))
                if function == "getattr":
                    self._word(literal(asked) or "", at)

    def _word(self, word: str, at: Site) -> None:
        self.program.words[word].add(at.scope.enclosing(FUNCTION))

    def _constant(self, at: Site) -> None:
        text = literal(at.node) or ""
        if text == old_behaviors.LOGGED or any(part in text for part in _SPELLING):
            self.program.texts.append(at)
