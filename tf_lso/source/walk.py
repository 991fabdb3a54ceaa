"""One pass over a syntax tree: what it binds, its places of interest, their guards."""

import ast
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tf_lso import names
from tf_lso.source.guards import (
    Branch,
    Caught,
    Fallback,
    Guard,
    Guards,
    caught,
    ends_loudly,
)
from tf_lso.source.scopes import (
    CLASS,
    COMPREHENSION,
    FUNCTION,
    MODULE,
    Derived,
    Imported,
    Program,
    Scope,
    Site,
    bind,
)
from tf_lso.source.syntax import chain_of, last_name, listed, literal


class At(NamedTuple):
    """Where a node stands."""

    scope: Scope
    guards: Guards = ()

    def under(self, guard: Guard | None) -> "At":
        """Return the same place under one more guard, if there is one."""
        return At(self.scope, (*self.guards, guard)) if guard else self

    def later(self, scope: Scope) -> "At":
        """Return the body of a function, which runs outside of the `try` around it."""
        return At(scope, tuple(g for g in self.guards if not isinstance(g, Caught)))


# Nodes to go on with, and where they stand.
Steps = list[tuple[ast.AST, At]]


def each(nodes: Iterable[ast.AST | None], at: At) -> Steps:
    """Return a step for each node."""
    return [(node, at) for node in nodes if node is not None]


def walk(program: Program, tree: ast.Module) -> None:
    """Take the tree into the program. Its own stack takes trees of any depth."""
    notes = _Notes(program)
    stack: Steps = [(tree, At(program.module))]
    while stack:
        node, at = stack.pop()
        method = getattr(notes, f"_{type(node).__name__.lower()}", None)
        steps = method(node, at) if method else None
        stack += reversed(
            each(ast.iter_child_nodes(node), at) if steps is None else steps
        )


def _parts(node: ast.AST, *without: str) -> list[ast.AST]:
    """Return what is directly in a node, without those fields."""
    fields = [value for name, value in ast.iter_fields(node) if name not in without]
    parts = [part for f in fields for part in (f if isinstance(f, list) else [f])]
    return [part for part in parts if isinstance(part, ast.AST)]


# Modules that pass TensorFlow on mostly use its usual names.
_HANDED_ON = {"tf": "tensorflow", "tensorflow": "tensorflow"}
# Parts of the dotted names of the old modules.
_SPELLING = ("mixed_precision", "train.experimental", "training.experimental")
_LOGGED = ("lr",)  # the learning rate in a history


class _Notes:
    """Each method is for the nodes that its name is made of.

    It returns how to go on, or None for: with all that is in the node.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.paired: set[int] = set()  # ids of names that are bound already

    # --- What binds names.

    def _import(self, node: ast.Import, at: At) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self.program.packages.add(top)
            value = Imported(alias.name if alias.asname else top, node)
            bind(at.scope, alias.asname or top, value, at.guards)
        self.program.note(node, *at)

    def _importfrom(self, node: ast.ImportFrom, at: At) -> None:
        module = node.module if not node.level else None
        for alias in node.names:
            self._word(alias.name, at)
            if alias.name == "*":
                self.program.stars.append(module or "")
                continue
            path, sure = f"{module}.{alias.name}" if module else "", True
            if alias.name in _HANDED_ON and module != "tensorflow":
                path, sure = _HANDED_ON[alias.name], False
            value = Imported(path, node, alias.name, sure)
            bind(at.scope, alias.asname or alias.name, value, at.guards)
        if module:
            self.program.packages.add(module.partition(".")[0])
            self.program.note(node, *at)

    def _functiondef(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, at: At
    ) -> Steps:
        bind(at.scope, node.name)
        return self._function(node, at, node.body)

    _asyncfunctiondef = _functiondef

    def _lambda(self, node: ast.Lambda, at: At) -> Steps:
        return self._function(node, at, [node.body])

    def _function(self, node: Any, at: At, body: Iterable[ast.AST]) -> Steps:
        inside = self.program.inner(FUNCTION, at.scope, node)
        given = (arg for arg in _parts(node.args) if isinstance(arg, ast.arg))
        for number, arg in enumerate(given):
            value = None
            if number == 0 and at.scope.kind == CLASS and not node.decorator_list:
                value = Derived(tuple(at.scope.node.bases), instance=True)
            bind(inside, arg.arg, value, where=at.scope.parent)
        return [*each(_parts(node, "body"), at), *each(body, at.later(inside))]

    def _classdef(self, node: ast.ClassDef, at: At) -> Steps:
        self.program.note(node, *at)
        bind(at.scope, node.name, Derived(tuple(node.bases)), at.guards)
        inside = At(self.program.inner(CLASS, at.scope, node), at.guards)
        return [*each(_parts(node, "body"), at), *each(node.body, inside)]

    def _listcomp(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, at: At
    ) -> Steps:
        inside = At(self.program.inner(COMPREHENSION, at.scope, node), at.guards)
        first, *others = node.generators
        rest = [*_parts(node, "generators"), *_parts(first, "iter"), *others]
        return [(first.iter, at), *each(rest, inside)]

    _setcomp = _dictcomp = _generatorexp = _listcomp

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr, at: At) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        owner = at.scope
        if isinstance(node, ast.NamedExpr):  # it binds outside of its comprehension
            owner = at.scope.enclosing(FUNCTION, CLASS, MODULE) or at.scope
        for name, value in (pair for t in targets for pair in _pairs(t, node.value)):
            bind(owner, name.id, value, at.guards, where=at.scope)
            self.paired.add(id(name))

    _annassign = _namedexpr = _assign

    def _name(self, node: ast.Name, at: At) -> None:
        if not isinstance(node.ctx, ast.Load) and id(node) not in self.paired:
            bind(at.scope, node.id)

    def _excepthandler(
        self,
        node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping,
        at: At,
    ) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            bind(at.scope, name)

    _matchas = _matchstar = _matchmapping = _excepthandler

    def _global(self, node: ast.Global | ast.Nonlocal, at: At) -> None:
        kind = "global" if isinstance(node, ast.Global) else "nonlocal"
        if at.scope.kind != MODULE:
            at.scope.elsewhere.update(dict.fromkeys(node.names, kind))

    _nonlocal = _global

    # --- Guards.

    def _try(self, node: ast.Try, at: At) -> Steps:
        raises = all(ends_loudly(handler.body) for handler in node.handlers)
        inside = at.under(caught([h.type for h in node.handlers], raises))
        fallback = at.under(Fallback(tuple(node.body), at.scope))
        return [
            *each(node.body, inside),
            *((h, fallback if caught([h.type]) else at) for h in node.handlers),
            *each((*node.orelse, *node.finalbody), at),
        ]

    _trystar = _try

    def _with(self, node: ast.With | ast.AsyncWith, at: At) -> Steps:
        calls = [item.context_expr for item in node.items]
        suppress = (c for c in calls if last_name(getattr(c, "func", c)) == "suppress")
        types = [
            argument for call in suppress for argument in getattr(call, "args", ())
        ]
        return [*each(node.items, at), *each(node.body, at.under(caught(types)))]

    _asyncwith = _with

    def _if(self, node: ast.If | ast.IfExp | ast.While, at: At) -> Steps:
        body, orelse = (
            branch if isinstance(branch, list) else [branch]
            for branch in (node.body, node.orelse)
        )
        test = node.test
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        if ends_loudly(body if negated else orelse):
            self.program.loud.update(map(id, ast.walk(test)))
        return [
            (test, at),
            *each(body, at.under(Branch(test, at.scope, True))),
            *each(orelse, at.under(Branch(test, at.scope, False))),
        ]

    _ifexp = _while = _if

    def _boolop(self, node: ast.BoolOp, at: At) -> Steps:
        found: Steps = []
        for value in node.values:
            found.append((value, at))
            at = at.under(Branch(value, at.scope, isinstance(node.op, ast.And)))
        return found

    def _assert(self, node: ast.Assert, at: At) -> None:
        self.program.loud.update(map(id, ast.walk(node.test)))

    # --- Places of interest.

    def _attribute(self, node: ast.Attribute, at: At) -> Steps:
        self.program.note(node, *at)
        chain = chain_of(node)
        base = chain[0].value
        self._word(last_name(base), at)
        for part in chain:
            self._word(part.attr, at)
        if not isinstance(node.ctx, ast.Load):
            self.program.stored.add(node.attr)
        return [(base, at)]

    def _call(self, node: ast.Call, at: At) -> None:
        self.program.note(node, *at)
        self.program.calls[id(node.func)] = node
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if len(node.args) < 2:
            return
        subject, asked = node.args[:2]
        if function in ("isinstance", "issubclass"):
            self.program.type_tests.update(map(id, listed(asked)))
        if function == "isinstance" and isinstance(subject, ast.Name):
            kinds = ((at.scope, subject.id, kind) for kind in listed(asked))
            self.program.evidence += kinds
        if function in ("getattr", "hasattr"):
            self.program.quiet.add(id(subject))
        if function == "getattr":
            self._word(literal(asked) or "", at)

    def _word(self, word: str, at: At) -> None:
        inside = at.scope.enclosing(FUNCTION)
        self.program.words.setdefault(word, set()).add(inside)

    def _compare(self, node: ast.Compare, at: At) -> None:
        """Note `"get_scaled_loss" in dir(optimizer)`."""
        if literal(node.left) in names.SCALING:
            self.program.note(node, *at)

    def _constant(self, node: ast.Constant, at: At) -> None:
        text = literal(node) or ""
        if text in _LOGGED or any(part in text for part in _SPELLING):
            self.program.texts.append(Site(node, *at, self.program.cell))


def _pairs(
    target: ast.AST, value: ast.AST | None
) -> Iterator[tuple[ast.Name, ast.AST | None]]:
    """Yield (name, its expression) of an assignment, also of tuples to tuples."""
    if isinstance(target, ast.Name):
        yield target, value
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(
        value, (ast.Tuple, ast.List)
    ):
        plain = not any(isinstance(x, ast.Starred) for x in (*target.elts, *value.elts))
        if plain and len(target.elts) == len(value.elts):
            for part, expression in zip(target.elts, value.elts):
                yield from _pairs(part, expression)
