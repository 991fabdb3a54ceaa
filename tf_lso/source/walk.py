"""One pass over a syntax tree: what it binds, its places of interest, their guards."""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tf_lso import names
from tf_lso.source.guards import (
    Branch,
    Caught,
    Fallback,
    Guard,
    Guards,
    ends_loudly,
    is_telling,
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
)
from tf_lso.source.syntax import chain_of


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
        stack += each(ast.iter_child_nodes(node), at) if steps is None else steps


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

    # --- What binds names.

    def _import(self, node: ast.Import, at: At) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self.program.packages.add(top)
            value = Imported(alias.name if alias.asname else top, node=node)
            self.program.bind(at.scope, alias.asname or top, value, at.guards)
        self.program.note(node, *at)

    def _importfrom(self, node: ast.ImportFrom, at: At) -> None:
        module = node.module if not node.level else None
        for alias in node.names:
            if alias.name == "*":
                self.program.stars.append(module or "")
                continue
            path, sure = f"{module}.{alias.name}" if module else "", True
            if alias.name in _HANDED_ON and module != "tensorflow":
                path, sure = _HANDED_ON[alias.name], False
            value = Imported(path, sure, alias.name, node)
            self.program.bind(at.scope, alias.asname or alias.name, value, at.guards)
        if module:
            self.program.packages.add(module.partition(".")[0])
            self.program.note(node, *at)

    def _functiondef(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, at: At
    ) -> Steps:
        self.program.bind(at.scope, node.name)
        inside, parameters = self._parameters(node, at.scope)
        if at.scope.kind == CLASS and parameters and not node.decorator_list:
            derived = Derived(tuple(at.scope.node.bases), instance=True)
            first = parameters[0].arg
            self.program.bind(inside, first, derived, where=at.scope.parent)
        outside = (
            *(*node.decorator_list, node.returns),
            *(*node.args.defaults, *node.args.kw_defaults),
            *(parameter.annotation for parameter in parameters),
            *getattr(node, "type_params", ()),  # since Python 3.12
        )
        return [*each(outside, at), *each(node.body, at.later(inside))]

    _asyncfunctiondef = _functiondef

    def _lambda(self, node: ast.Lambda, at: At) -> Steps:
        inside, _ = self._parameters(node, at.scope)
        defaults = (*node.args.defaults, *node.args.kw_defaults)
        return [*each(defaults, at), (node.body, at.later(inside))]

    def _parameters(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope
    ) -> tuple[Scope, list[ast.arg]]:
        """Return the scope of a function, and its parameters, which are bound there."""
        inside, given = self.program.inner(FUNCTION, scope, node), node.args
        found = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        found += filter(None, (given.vararg, given.kwarg))
        for parameter in found:
            self.program.bind(inside, parameter.arg)
        return inside, found

    def _classdef(self, node: ast.ClassDef, at: At) -> Steps:
        self.program.note(node, *at)
        self.program.bind(at.scope, node.name, Derived(tuple(node.bases)), at.guards)
        inside = At(self.program.inner(CLASS, at.scope, node), at.guards)
        types = getattr(node, "type_params", ())  # since Python 3.12
        outside = (*node.decorator_list, *node.bases, *node.keywords, *types)
        return [*each(outside, at), *each(node.body, inside)]

    def _listcomp(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, at: At
    ) -> Steps:
        inside = At(self.program.inner(COMPREHENSION, at.scope, node), at.guards)
        first = node.generators[0]
        parts = [*ast.iter_child_nodes(node), *ast.iter_child_nodes(first)]
        rest = (part for part in parts if part not in (first, first.iter))
        return [(first.iter, at), *each(rest, inside)]

    _setcomp = _dictcomp = _generatorexp = _listcomp

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr, at: At) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        owner = at.scope
        if isinstance(node, ast.NamedExpr):  # it binds outside of its comprehension
            owner = at.scope.enclosing(FUNCTION, CLASS, MODULE) or at.scope
        for target in targets:
            for name, value in _pairs(target, node.value):
                self.program.bind(owner, name.id, value, at.guards, where=at.scope)
                self.program.paired.add(id(name))

    _annassign = _namedexpr = _assign

    def _name(self, node: ast.Name, at: At) -> None:
        if not isinstance(node.ctx, ast.Load) and id(node) not in self.program.paired:
            self.program.bind(at.scope, node.id)

    def _excepthandler(
        self,
        node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping,
        at: At,
    ) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            self.program.bind(at.scope, name)

    _matchas = _matchstar = _matchmapping = _excepthandler

    def _global(self, node: ast.Global | ast.Nonlocal, at: At) -> None:
        kind = "global" if isinstance(node, ast.Global) else "nonlocal"
        if at.scope.kind != MODULE:
            at.scope.elsewhere.update(dict.fromkeys(node.names, kind))

    _nonlocal = _global

    # --- Guards, and places of interest.

    def _try(self, node: ast.Try, at: At) -> Steps:
        fallback = at.under(Fallback(tuple(node.body), at.scope))
        return [
            *each(node.body, at.under(Caught.by(node.handlers))),
            *each((*node.orelse, *node.finalbody), at),
            *((h, fallback if Caught.by([h]) else at) for h in node.handlers),
        ]

    _trystar = _try

    def _with(self, node: ast.With | ast.AsyncWith, at: At) -> Steps:
        body = each(node.body, at.under(Caught.by_with(node.items)))
        return [*each(node.items, at), *body]

    _asyncwith = _with

    def _if(self, node: ast.If | ast.IfExp | ast.While, at: At) -> Steps | None:
        body, orelse = (
            branch if isinstance(branch, list) else [branch]
            for branch in (node.body, node.orelse)
        )
        test = node.test
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        if ends_loudly(body if negated else orelse):
            self.program.loud.update(map(id, ast.walk(test)))
        if not is_telling(test):
            return None
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
            if is_telling(value):
                taken = isinstance(node.op, ast.And)
                at = at.under(Branch(value, at.scope, taken))
        return found

    def _attribute(self, node: ast.Attribute, at: At) -> Steps:
        self.program.note(node, *at)
        if not isinstance(node.ctx, ast.Load):
            self.program.stored.add(node.attr)
        return [(chain_of(node)[0].value, at)]

    def _call(self, node: ast.Call, at: At) -> None:
        self.program.note(node, *at)
        self.program.calls[id(node.func)] = node
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if function in ("isinstance", "issubclass") and len(node.args) == 2:
            subject, given = node.args
            kinds = given.elts if isinstance(given, ast.Tuple) else [given]
            self.program.type_tests.update(map(id, kinds))
            if isinstance(subject, ast.Name) and function == "isinstance":
                self.program.evidence += [(at.scope, subject.id, k) for k in kinds]

    def _assert(self, node: ast.Assert, at: At) -> None:
        self.program.loud.update(map(id, ast.walk(node.test)))

    def _compare(self, node: ast.Compare, at: At) -> None:
        """Note `"get_scaled_loss" in dir(optimizer)`."""
        if isinstance(node.left, ast.Constant) and node.left.value in names.SCALING:
            self.program.note(node, *at)

    def _constant(self, node: ast.Constant, at: At) -> None:
        text = node.value
        if isinstance(text, str) and (
            text in _LOGGED or any(part in text for part in _SPELLING)
        ):
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
