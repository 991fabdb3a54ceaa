"""One pass over a syntax tree, which fills in a `Program`.

Each handler notes what its kind of node binds and returns the nodes to go on with, each
with the scope and the guards that it stands in.
"""

import ast

from tf_lso import names
from tf_lso.programs.guards import Branch, Caught, Fallback, ends_loudly, is_telling
from tf_lso.programs.scopes import (
    CLASS,
    COMPREHENSION,
    FUNCTION,
    MODULE,
    Derived,
    Imported,
    Program,
    Site,
)


def walk(program: Program, tree: ast.Module) -> None:
    """Takes the tree into the program. Its own stack takes trees of any depth."""
    stack = [(tree, program.module, ())]
    while stack:
        node, scope, guards = stack.pop()
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            stack.extend(handler(program, node, scope, guards))
        else:
            for child in _children(node):
                stack.append((child, scope, guards))


# Parts of the dotted names of the old modules.
_SPELLING = ("mixed_precision", "train.experimental", "training.experimental")

# Parts of nodes that bind and use nothing: contexts, operators, plain text.
_PLAIN = {"ctx", "op", "ops", "id", "attr", "arg", "kind", "type_comment"}
_fields: dict[type, tuple[str, ...]] = {}


def _children(node):
    fields = _fields.get(type(node))
    if fields is None:
        fields = tuple(name for name in node._fields if name not in _PLAIN)
        _fields[type(node)] = fields
    children = []
    for field in fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            children += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            children.append(value)
    return children


def _each(nodes, scope, guards):
    return [(node, scope, guards) for node in nodes if node is not None]


def _import(program, node, scope, guards):
    for alias in node.names:
        top = alias.name.partition(".")[0]
        program.packages.add(top)
        path = alias.name if alias.asname else top
        value = Imported(path, node=node)
        program.bind(scope, alias.asname or top, value, guards)
    program.note(node, scope, guards)
    return ()


# Modules that hand TensorFlow on mostly do so under its usual names.
_HANDED_ON = {"tf": "tensorflow", "tensorflow": "tensorflow"}


def _import_from(program, node, scope, guards):
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


def _parameters(arguments):
    return [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *filter(None, (arguments.vararg, arguments.kwarg)),
    ]


def _later(guards):
    """Returns the guards of a body that runs later: no `except` around it then."""
    return tuple(guard for guard in guards if not isinstance(guard, Caught))


def _function(program, node, scope, guards):
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
        *_each((*node.decorator_list, node.returns), scope, guards),
        *_each((*arguments.defaults, *arguments.kw_defaults), scope, guards),
        *_each((parameter.annotation for parameter in parameters), scope, guards),
        *_each(getattr(node, "type_params", ()), scope, guards),  # since Python 3.12
        *_each(node.body, inside, _later(guards)),
    ]


def _lambda(program, node, scope, guards):
    inside = program.inner(FUNCTION, scope, node)
    for parameter in _parameters(node.args):
        program.bind(inside, parameter.arg)
    return [
        *_each((*node.args.defaults, *node.args.kw_defaults), scope, guards),
        (node.body, inside, _later(guards)),
    ]


def _class(program, node, scope, guards):
    program.bind(scope, node.name, Derived(tuple(node.bases)), guards)
    inside = program.inner(CLASS, scope, node)
    types = getattr(node, "type_params", ())  # since Python 3.12
    outside = (*node.decorator_list, *node.bases, *node.keywords, *types)
    return [*_each(outside, scope, guards), *_each(node.body, inside, guards)]


def _comprehension(program, node, scope, guards):
    inside = program.inner(COMPREHENSION, scope, node)
    first = node.generators[0]
    rest = [child for child in _children(node) if child is not first]
    within = [child for child in _children(first) if child is not first.iter]
    return [(first.iter, scope, guards), *_each((*rest, *within), inside, guards)]


def _pairs(target, value):
    """Yields (name, its expression) of an assignment, through tuples of one length."""
    if isinstance(target, ast.Name):
        yield target, value
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(
        value, (ast.Tuple, ast.List)
    ):
        plain = not any(isinstance(x, ast.Starred) for x in (*target.elts, *value.elts))
        if plain and len(target.elts) == len(value.elts):
            for part, expression in zip(target.elts, value.elts):
                yield from _pairs(part, expression)


def _assign(program, node, scope, guards):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    owner = scope
    if isinstance(node, ast.NamedExpr):  # leaves its comprehension
        owner = scope.enclosing(FUNCTION, CLASS, MODULE)
    for target in targets:
        for name, value in _pairs(target, node.value):
            program.bind(owner, name.id, value, guards, where=scope)
            program.paired.add(id(name))
    skip = targets if isinstance(node, ast.NamedExpr) else ()
    return _each((c for c in _children(node) if c not in skip), scope, guards)


def _name(program, node, scope, guards):
    if not isinstance(node.ctx, ast.Load) and id(node) not in program.paired:
        program.bind(scope, node.id)
    return ()


def _named(attribute):
    """Returns the handler of a node that binds the name in one of its fields."""

    def handler(program, node, scope, guards):
        if getattr(node, attribute):
            program.bind(scope, getattr(node, attribute))
        return _each(_children(node), scope, guards)

    return handler


def _elsewhere(program, node, scope, guards):
    kind = "global" if isinstance(node, ast.Global) else "nonlocal"
    if scope.kind != MODULE:
        scope.elsewhere.update(dict.fromkeys(node.names, kind))
    return ()


def _try(program, node, scope, guards):
    caught = Caught.by(node.handlers)
    fallback = (*guards, Fallback(tuple(node.body), scope))
    return [
        *_each(node.body, scope, (*guards, caught) if caught else guards),
        *_each((*node.orelse, *node.finalbody), scope, guards),
        *(
            (handler, scope, fallback if Caught.by([handler]) else guards)
            for handler in node.handlers
        ),
    ]


def _with(program, node, scope, guards):
    caught = Caught.by_with(node.items)
    return [
        *_each(node.items, scope, guards),
        *_each(node.body, scope, (*guards, caught) if caught else guards),
    ]


def _branches(program, node, scope, guards):
    body, orelse = node.body, node.orelse
    if isinstance(node, ast.IfExp):
        body, orelse = [body], [orelse]
    negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
    if ends_loudly(body if negated else orelse):
        program.loud.update(map(id, ast.walk(node.test)))
    if not is_telling(node.test):
        return _each((node.test, *body, *orelse), scope, guards)
    return [
        (node.test, scope, guards),
        *_each(body, scope, (*guards, Branch(node.test, scope, True))),
        *_each(orelse, scope, (*guards, Branch(node.test, scope, False))),
    ]


def _bool_op(program, node, scope, guards):
    found = []
    for value in node.values:
        found.append((value, scope, guards))
        if is_telling(value):
            taken = isinstance(node.op, ast.And)
            guards = (*guards, Branch(value, scope, taken))
    return found


def _attribute(program, node, scope, guards):
    program.note(node, scope, guards)
    if not isinstance(node.ctx, ast.Load):
        program.stored.add(node.attr)
    while isinstance(node, ast.Attribute):
        node = node.value
    return ((node, scope, guards),)


def _call(program, node, scope, guards):
    program.note(node, scope, guards)
    program.calls[id(node.func)] = node
    function = node.func.id if isinstance(node.func, ast.Name) else ""
    if function in ("isinstance", "issubclass") and len(node.args) == 2:
        subject, kinds = node.args
        kinds = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
        program.type_tests.update(map(id, kinds))
        if isinstance(subject, ast.Name) and function == "isinstance":
            program.evidence.extend((scope, subject.id, kind) for kind in kinds)
    return [
        (node.func, scope, guards),
        *_each((*node.args, *(k.value for k in node.keywords)), scope, guards),
    ]


def _assert(program, node, scope, guards):
    program.loud.update(map(id, ast.walk(node.test)))
    return _each(_children(node), scope, guards)


def _compare(program, node, scope, guards):
    """Notes `"get_scaled_loss" in dir(optimizer)`."""
    if isinstance(node.left, ast.Constant) and node.left.value in names.SCALING:
        program.note(node, scope, guards)
    return _each(_children(node), scope, guards)


def _constant(program, node, scope, guards):
    if isinstance(node.value, str) and any(part in node.value for part in _SPELLING):
        program.texts.append(Site(node, scope, guards, program.cell))
    return ()


_HANDLERS = {
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _lambda,
    ast.ClassDef: _class,
    **dict.fromkeys(
        (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _comprehension
    ),
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.NamedExpr), _assign),
    ast.Name: _name,
    ast.Constant: _constant,
    ast.ExceptHandler: _named("name"),
    ast.MatchAs: _named("name"),
    ast.MatchStar: _named("name"),
    ast.MatchMapping: _named("rest"),
    ast.Global: _elsewhere,
    ast.Nonlocal: _elsewhere,
    **{getattr(ast, name): _try for name in ("Try", "TryStar") if hasattr(ast, name)},
    ast.With: _with,
    ast.AsyncWith: _with,
    **dict.fromkeys((ast.If, ast.IfExp, ast.While), _branches),
    ast.Assert: _assert,
    ast.BoolOp: _bool_op,
    ast.Compare: _compare,
    ast.Attribute: _attribute,
    ast.Call: _call,
}
