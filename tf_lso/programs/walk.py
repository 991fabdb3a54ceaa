"""One pass over a syntax tree, which fills in a `Program`.

`binding` notes what nodes bind. The handlers here note uses, and the guards around them.
"""

import ast
from collections.abc import Iterable, Sequence

from tf_lso import names
from tf_lso.programs import binding
from tf_lso.programs.binding import Handler, Step, each
from tf_lso.programs.guards import (
    Branch,
    Caught,
    Fallback,
    Guards,
    ends_loudly,
    is_telling,
)
from tf_lso.programs.scopes import Program, Scope, Site
from tf_lso.programs.syntax import chain_of, children


def walk(program: Program, tree: ast.Module) -> None:
    """Take the tree into the program. Its own stack takes trees of any depth."""
    stack: list[Step] = [(tree, program.module, ())]
    while stack:
        node, scope, guards = stack.pop()
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            stack.extend(handler(program, node, scope, guards))
        else:
            for child in children(node):
                stack.append((child, scope, guards))


# Parts of the dotted names of the old modules.
_SPELLING = ("mixed_precision", "train.experimental", "training.experimental")


def _try(
    program: Program, node: ast.Try, scope: Scope, guards: Guards
) -> Iterable[Step]:
    caught = Caught.by(node.handlers)
    fallback = (*guards, Fallback(tuple(node.body), scope))
    return [
        *each(node.body, scope, (*guards, caught) if caught else guards),
        *each((*node.orelse, *node.finalbody), scope, guards),
        *(
            (handler, scope, fallback if Caught.by([handler]) else guards)
            for handler in node.handlers
        ),
    ]


def _with(
    program: Program, node: ast.With | ast.AsyncWith, scope: Scope, guards: Guards
) -> Iterable[Step]:
    caught = Caught.by_with(node.items)
    return [
        *each(node.items, scope, guards),
        *each(node.body, scope, (*guards, caught) if caught else guards),
    ]


def _branches(
    program: Program, node: ast.If | ast.IfExp | ast.While, scope: Scope, guards: Guards
) -> Iterable[Step]:
    body: Sequence[ast.AST]
    orelse: Sequence[ast.AST]
    if isinstance(node, ast.IfExp):
        body, orelse = [node.body], [node.orelse]
    else:
        body, orelse = node.body, node.orelse
    negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
    if ends_loudly(body if negated else orelse):
        program.loud.update(map(id, ast.walk(node.test)))
    if not is_telling(node.test):
        return each((node.test, *body, *orelse), scope, guards)
    return [
        (node.test, scope, guards),
        *each(body, scope, (*guards, Branch(node.test, scope, True))),
        *each(orelse, scope, (*guards, Branch(node.test, scope, False))),
    ]


def _bool_op(
    program: Program, node: ast.BoolOp, scope: Scope, guards: Guards
) -> Iterable[Step]:
    found = []
    for value in node.values:
        found.append((value, scope, guards))
        if is_telling(value):
            taken = isinstance(node.op, ast.And)
            guards = (*guards, Branch(value, scope, taken))
    return found


def _attribute(
    program: Program, node: ast.Attribute, scope: Scope, guards: Guards
) -> Iterable[Step]:
    program.note(node, scope, guards)
    if not isinstance(node.ctx, ast.Load):
        program.stored.add(node.attr)
    return ((chain_of(node)[0].value, scope, guards),)


def _call(
    program: Program, node: ast.Call, scope: Scope, guards: Guards
) -> Iterable[Step]:
    program.note(node, scope, guards)
    program.calls[id(node.func)] = node
    function = node.func.id if isinstance(node.func, ast.Name) else ""
    if function in ("isinstance", "issubclass") and len(node.args) == 2:
        subject, given = node.args
        kinds = given.elts if isinstance(given, ast.Tuple) else [given]
        program.type_tests.update(map(id, kinds))
        if isinstance(subject, ast.Name) and function == "isinstance":
            program.evidence.extend((scope, subject.id, kind) for kind in kinds)
    return [
        (node.func, scope, guards),
        *each((*node.args, *(k.value for k in node.keywords)), scope, guards),
    ]


def _assert(
    program: Program, node: ast.Assert, scope: Scope, guards: Guards
) -> Iterable[Step]:
    program.loud.update(map(id, ast.walk(node.test)))
    return each(children(node), scope, guards)


def _compare(
    program: Program, node: ast.Compare, scope: Scope, guards: Guards
) -> Iterable[Step]:
    """Note `"get_scaled_loss" in dir(optimizer)`."""
    if isinstance(node.left, ast.Constant) and node.left.value in names.SCALING:
        program.note(node, scope, guards)
    return each(children(node), scope, guards)


def _constant(
    program: Program, node: ast.Constant, scope: Scope, guards: Guards
) -> Iterable[Step]:
    if isinstance(node.value, str) and any(part in node.value for part in _SPELLING):
        program.texts.append(Site(node, scope, guards, program.cell))
    return ()


_HANDLERS: dict[type[ast.AST], Handler] = {
    **binding.HANDLERS,
    ast.Constant: _constant,
    **{getattr(ast, name): _try for name in ("Try", "TryStar") if hasattr(ast, name)},
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.If: _branches,
    ast.IfExp: _branches,
    ast.While: _branches,
    ast.Assert: _assert,
    ast.BoolOp: _bool_op,
    ast.Compare: _compare,
    ast.Attribute: _attribute,
    ast.Call: _call,
}
