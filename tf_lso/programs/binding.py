"""What the nodes of a syntax tree bind: imports, definitions and assignments.

Each handler notes what its kind of node binds. It returns the nodes to go on with.
"""

import ast
from collections.abc import Callable, Iterable, Iterator

from tf_lso.programs.guards import Caught, Guards
from tf_lso.programs.scopes import (
    CLASS,
    COMPREHENSION,
    FUNCTION,
    MODULE,
    Derived,
    Imported,
    Program,
    Scope,
)
from tf_lso.programs.syntax import children

# A node to go on with, its scope and its guards.
Step = tuple[ast.AST, Scope, Guards]
Handler = Callable[..., Iterable[Step]]


def each(nodes: Iterable[ast.AST | None], scope: Scope, guards: Guards) -> list[Step]:
    """Return a step for each node."""
    return [(node, scope, guards) for node in nodes if node is not None]


def _import(
    program: Program, node: ast.Import, scope: Scope, guards: Guards
) -> Iterable[Step]:
    for alias in node.names:
        top = alias.name.partition(".")[0]
        program.packages.add(top)
        path = alias.name if alias.asname else top
        value = Imported(path, node=node)
        program.bind(scope, alias.asname or top, value, guards)
    program.note(node, scope, guards)
    return ()


# Modules that pass TensorFlow on mostly use its usual names.
_HANDED_ON = {"tf": "tensorflow", "tensorflow": "tensorflow"}


def _import_from(
    program: Program, node: ast.ImportFrom, scope: Scope, guards: Guards
) -> Iterable[Step]:
    module = node.module if not node.level else None
    if module:
        program.packages.add(module.partition(".")[0])
    for alias in node.names:
        if alias.name == "*":
            program.stars.append(module or "")
            continue
        value = Imported(f"{module}.{alias.name}", node=node) if module else None
        if alias.name in _HANDED_ON and module != "tensorflow":
            value = Imported(_HANDED_ON[alias.name], sure=False, node=node)
        program.bind(scope, alias.asname or alias.name, value, guards)
    if module:
        program.note(node, scope, guards)
    return ()


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *filter(None, (arguments.vararg, arguments.kwarg)),
    ]


def _later(guards: Guards) -> Guards:
    """Return the guards of a body that runs later, outside of the `try` around it."""
    return tuple(guard for guard in guards if not isinstance(guard, Caught))


def _function(
    program: Program,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    scope: Scope,
    guards: Guards,
) -> Iterable[Step]:
    program.bind(scope, node.name)
    inside = program.inner(FUNCTION, scope, node)
    arguments = node.args
    parameters = _parameters(arguments)
    for parameter in parameters:
        program.bind(inside, parameter.arg)
    if scope.kind == CLASS and parameters and not node.decorator_list:
        derived = Derived(tuple(scope.node.bases), instance=True)
        program.bind(inside, parameters[0].arg, derived, where=scope.parent)
    return [
        *each((*node.decorator_list, node.returns), scope, guards),
        *each((*arguments.defaults, *arguments.kw_defaults), scope, guards),
        *each((parameter.annotation for parameter in parameters), scope, guards),
        *each(getattr(node, "type_params", ()), scope, guards),  # since Python 3.12
        *each(node.body, inside, _later(guards)),
    ]


def _lambda(
    program: Program, node: ast.Lambda, scope: Scope, guards: Guards
) -> Iterable[Step]:
    inside = program.inner(FUNCTION, scope, node)
    for parameter in _parameters(node.args):
        program.bind(inside, parameter.arg)
    return [
        *each((*node.args.defaults, *node.args.kw_defaults), scope, guards),
        (node.body, inside, _later(guards)),
    ]


def _class(
    program: Program, node: ast.ClassDef, scope: Scope, guards: Guards
) -> Iterable[Step]:
    program.bind(scope, node.name, Derived(tuple(node.bases)), guards)
    inside = program.inner(CLASS, scope, node)
    types = getattr(node, "type_params", ())  # since Python 3.12
    outside = (*node.decorator_list, *node.bases, *node.keywords, *types)
    return [*each(outside, scope, guards), *each(node.body, inside, guards)]


def _comprehension(
    program: Program,
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
    scope: Scope,
    guards: Guards,
) -> Iterable[Step]:
    inside = program.inner(COMPREHENSION, scope, node)
    first = node.generators[0]
    rest = [child for child in children(node) if child is not first]
    within = [child for child in children(first) if child is not first.iter]
    return [(first.iter, scope, guards), *each((*rest, *within), inside, guards)]


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


def _assign(
    program: Program,
    node: ast.Assign | ast.AnnAssign | ast.NamedExpr,
    scope: Scope,
    guards: Guards,
) -> Iterable[Step]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    owner = scope
    if isinstance(node, ast.NamedExpr):  # it binds outside of its comprehension
        owner = scope.enclosing(FUNCTION, CLASS, MODULE) or scope
    for target in targets:
        for name, value in _pairs(target, node.value):
            program.bind(owner, name.id, value, guards, where=scope)
            program.paired.add(id(name))
    skip = targets if isinstance(node, ast.NamedExpr) else ()
    return each((c for c in children(node) if c not in skip), scope, guards)


def _name(
    program: Program, node: ast.Name, scope: Scope, guards: Guards
) -> Iterable[Step]:
    if not isinstance(node.ctx, ast.Load) and id(node) not in program.paired:
        program.bind(scope, node.id)
    return ()


def _named(attribute: str) -> Handler:
    """Return the handler of a node that binds the name in one of its fields."""

    def handler(
        program: Program, node: ast.AST, scope: Scope, guards: Guards
    ) -> Iterable[Step]:
        if getattr(node, attribute):
            program.bind(scope, getattr(node, attribute))
        return each(children(node), scope, guards)

    return handler


def _elsewhere(
    program: Program, node: ast.Global | ast.Nonlocal, scope: Scope, guards: Guards
) -> Iterable[Step]:
    kind = "global" if isinstance(node, ast.Global) else "nonlocal"
    if scope.kind != MODULE:
        scope.elsewhere.update(dict.fromkeys(node.names, kind))
    return ()


HANDLERS: dict[type[ast.AST], Handler] = {
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _lambda,
    ast.ClassDef: _class,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Assign: _assign,
    ast.AnnAssign: _assign,
    ast.NamedExpr: _assign,
    ast.Name: _name,
    ast.ExceptHandler: _named("name"),
    ast.MatchAs: _named("name"),
    ast.MatchStar: _named("name"),
    ast.MatchMapping: _named("rest"),
    ast.Global: _elsewhere,
    ast.Nonlocal: _elsewhere,
}
