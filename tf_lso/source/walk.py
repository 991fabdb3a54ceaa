"""One pass over a syntax tree: what it binds, its places of interest, their guards."""

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from tf_lso.source import guards
from tf_lso.source.scopes import (
    CLASS,
    COMPREHENSION,
    FUNCTION,
    MODULE,
    Branch,
    Caught,
    Derived,
    Fallback,
    Guard,
    Imported,
    Program,
    Scope,
    Site,
)
from tf_lso.source.syntax import chain_of, imported_paths, last_name, listed, literal


def walk(program: Program, tree: ast.Module, cell: int | None = None) -> None:
    """Take the tree into the program. Its own stack takes trees of any depth."""
    notes = _Notes(program)
    stack = [Site(tree, program.module, (), cell)]
    while stack:
        at = stack.pop()
        method = getattr(notes, f"_{type(at.node).__name__.lower()}", None)
        steps = method(at) if method else None
        if steps is None:
            steps = _each(ast.iter_child_nodes(at.node), at)
        stack += reversed(steps)


def _each(nodes: Iterable[Any], at: Site, guard: Guard | None = None) -> list[Site]:
    """Return the nodes as they stand at a place, under one more guard if there is one."""
    inside = (*at.guards, guard) if guard else at.guards
    return [at._replace(node=node, guards=inside) for node in nodes]


def _parts(node: ast.AST, *without: str) -> list[Any]:
    """Return what is directly in a node, without those fields."""
    fields = [value for name, value in ast.iter_fields(node) if name not in without]
    parts = [part for field in fields for part in _list(field)]
    return [part for part in parts if isinstance(part, ast.AST)]


def _list(field: Any) -> list[Any]:
    return field if isinstance(field, list) else [field]


# By these names, modules pass TensorFlow on.
_HANDED_ON = ("tf", "tensorflow")
# Parts of the dotted names of the old modules.
_SPELLING = ("mixed_precision", "train.experimental", "training.experimental")
_LOGGED = ("lr",)  # the learning rate in a history


class _Notes:
    """Each method is for the nodes that its name is made of, with their place.

    It returns how to go on, or None for: with all that is in the node.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.paired: set[int] = set()  # ids of names that are bound already

    # --- What binds names.

    def _import(self, at: Site) -> None:
        self._imports(at)
        for alias in at.node.names:
            top = alias.name.partition(".")[0]
            value = Imported(alias.name if alias.asname else top, at.node)
            at.scope.bind(alias.asname or top, value, at.guards)

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
            value = Imported(path, node, alias.name, sure=not guess)
            at.scope.bind(alias.asname or alias.name, value, at.guards)

    def _imports(self, at: Site) -> None:
        self.program.sites.append(at)
        paths = imported_paths(at.node)
        self.program.imported += paths
        self.program.packages.update(path.partition(".")[0] for path in paths)

    def _functiondef(self, at: Site) -> list[Site]:
        at.scope.bind(at.node.name)
        return self._lambda(at)

    _asyncfunctiondef = _functiondef

    def _lambda(self, at: Site) -> list[Site]:
        node, inside = at.node, self._inner(FUNCTION, at)
        method = at.scope.kind == CLASS and not getattr(node, "decorator_list", True)
        value = Derived(tuple(at.scope.node.bases), instance=True) if method else None
        for arg in _parts(node.args):
            if isinstance(arg, ast.arg):
                inside.bind(arg.arg, value, where=at.scope.parent)
                value = None  # only the first one is `self`
        # The body runs outside of the `try` around it.
        guards = tuple(g for g in at.guards if not isinstance(g, Caught))
        body = Site(node, inside, guards, at.cell)
        return [*_each(_parts(node, "body"), at), *_each(_list(node.body), body)]

    def _classdef(self, at: Site) -> list[Site]:
        node = at.node
        self.program.sites.append(at)
        at.scope.bind(node.name, Derived(tuple(node.bases)), at.guards)
        body = at._replace(scope=self._inner(CLASS, at))
        return [*_each(_parts(node, "body"), at), *_each(node.body, body)]

    def _inner(self, kind: str, at: Site) -> Scope:
        self.program.scopes.append(Scope(kind, at.scope, at.node))
        return self.program.scopes[-1]

    def _listcomp(self, at: Site) -> list[Site]:
        inside = at._replace(scope=self._inner(COMPREHENSION, at))
        first, *others = at.node.generators
        rest = [*_parts(at.node, "generators"), *_parts(first, "iter"), *others]
        return [*_each([first.iter], at), *_each(rest, inside)]

    _setcomp = _dictcomp = _generatorexp = _listcomp

    def _assign(self, at: Site) -> None:
        node, owner = at.node, at.scope
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.NamedExpr):  # it binds outside of its comprehension
            owner = owner.enclosing(FUNCTION, CLASS, MODULE) or owner
        for name, value in (pair for t in targets for pair in _pairs(t, node.value)):
            owner.bind(name.id, value, at.guards, where=at.scope)
            self.paired.add(id(name))

    _annassign = _namedexpr = _assign

    def _name(self, at: Site) -> None:
        if not isinstance(at.node.ctx, ast.Load) and id(at.node) not in self.paired:
            at.scope.bind(at.node.id)

    def _excepthandler(self, at: Site) -> None:
        if at.node.name:
            at.scope.bind(at.node.name)

    _matchas = _matchstar = _excepthandler

    def _global(self, at: Site) -> None:
        kind = "global" if isinstance(at.node, ast.Global) else "nonlocal"
        if at.scope.kind != MODULE:
            at.scope.elsewhere.update(dict.fromkeys(at.node.names, kind))

    _nonlocal = _global

    # --- Guards.

    def _try(self, at: Site) -> list[Site]:
        node, types = at.node, [handler.type for handler in at.node.handlers]
        raises = all(guards.ends_loudly(handler.body) for handler in node.handlers)
        found = _each(node.body, at, guards.caught(types, raises))
        fallback = Fallback(tuple(node.body), at.scope)
        for handler in node.handlers:
            catches = guards.caught([handler.type])
            found += _each([handler], at, fallback if catches else None)
        return found + _each((*node.orelse, *node.finalbody), at)

    _trystar = _try

    def _with(self, at: Site) -> list[Site]:
        calls = [item.context_expr for item in at.node.items]
        calls = [call for call in calls if isinstance(call, ast.Call)]
        suppress = (call for call in calls if last_name(call.func) == "suppress")
        caught = guards.caught(argument for call in suppress for argument in call.args)
        return [*_each(at.node.items, at), *_each(at.node.body, at, caught)]

    _asyncwith = _with

    def _if(self, at: Site) -> list[Site]:
        body, orelse, test = _list(at.node.body), _list(at.node.orelse), at.node.test
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        if guards.ends_loudly(body if negated else orelse):
            self.program.loud.update(map(id, ast.walk(test)))
        return [
            *_each([test], at),
            *_each(body, at, Branch(test, at.scope, True)),
            *_each(orelse, at, Branch(test, at.scope, False)),
        ]

    _ifexp = _while = _if

    def _boolop(self, at: Site) -> list[Site]:
        found, taken = [], isinstance(at.node.op, ast.And)
        for value in at.node.values:
            found += _each([value], at)
            (at,) = _each([value], at, Branch(value, at.scope, taken))
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
        return _each([base], at)

    def _call(self, at: Site) -> None:
        node, program = at.node, self.program
        program.sites.append(at)
        program.calls[id(node.func)] = node
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if len(node.args) < 2:
            return
        subject, asked = node.args[:2]
        if function in ("isinstance", "issubclass"):
            program.type_tests.update(map(id, listed(asked)))
        if function == "isinstance" and isinstance(subject, ast.Name):
            program.evidence += ((at.scope, subject.id, k) for k in listed(asked))
        if function in ("getattr", "hasattr"):
            program.quiet.add(id(subject))
        if function == "getattr":
            self._word(literal(asked) or "", at)

    def _word(self, word: str, at: Site) -> None:
        inside = at.scope.enclosing(FUNCTION)
        self.program.words.setdefault(word, set()).add(inside)

    def _constant(self, at: Site) -> None:
        text = literal(at.node) or ""
        if text in _LOGGED or any(part in text for part in _SPELLING):
            self.program.texts.append(at)


def _pairs(target: Any, value: Any) -> Iterator[tuple[ast.Name, Any]]:
    """Yield (name, its expression) of an assignment, also of tuples to tuples."""
    sides = target, value
    if isinstance(target, ast.Name):
        yield target, value
    elif all(isinstance(side, (ast.Tuple, ast.List)) for side in sides):
        parts = [*target.elts, *value.elts]
        starred = any(isinstance(part, ast.Starred) for part in parts)
        if not starred and len(target.elts) == len(value.elts):
            for part, expression in zip(target.elts, value.elts):
                yield from _pairs(part, expression)
