"""One pass over a syntax tree, which fills in a `Program`.

`binding` notes what nodes bind. The methods here note uses, and the guards around them.
"""

import ast
from collections.abc import Sequence

from tf_lso import names
from tf_lso.source.binding import At, Binding, Steps, each
from tf_lso.source.guards import Branch, Caught, Fallback, ends_loudly, is_telling
from tf_lso.source.scopes import Program, Site
from tf_lso.source.syntax import chain_of, children


def walk(program: Program, tree: ast.Module) -> None:
    """Take the tree into the program. Its own stack takes trees of any depth."""
    notes = _Notes(program)
    stack: Steps = [(tree, At(program.module))]
    while stack:
        node, at = stack.pop()
        method = _METHODS.get(type(node))
        stack += method(notes, node, at) if method else each(children(node), at)


# Parts of the dotted names of the old modules.
_SPELLING = ("mixed_precision", "train.experimental", "training.experimental")
_LOGGED = ("lr",)  # the learning rate in a history


class _Notes(Binding):
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

    def _if(self, node: ast.If | ast.IfExp | ast.While, at: At) -> Steps:
        body: Sequence[ast.AST]
        orelse: Sequence[ast.AST]
        if isinstance(node, ast.IfExp):
            body, orelse = [node.body], [node.orelse]
        else:
            body, orelse = node.body, node.orelse
        test = node.test
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        if ends_loudly(body if negated else orelse):
            self.program.loud.update(map(id, ast.walk(test)))
        if not is_telling(test):
            return each((test, *body, *orelse), at)
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

    def _classdef(self, node: ast.ClassDef, at: At) -> Steps:
        self.program.note(node, *at)
        return super()._classdef(node, at)

    def _call(self, node: ast.Call, at: At) -> Steps:
        self.program.note(node, *at)
        self.program.calls[id(node.func)] = node
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if function in ("isinstance", "issubclass") and len(node.args) == 2:
            subject, given = node.args
            kinds = given.elts if isinstance(given, ast.Tuple) else [given]
            self.program.type_tests.update(map(id, kinds))
            if isinstance(subject, ast.Name) and function == "isinstance":
                self.program.evidence += [(at.scope, subject.id, k) for k in kinds]
        return each((node.func, *node.args, *(k.value for k in node.keywords)), at)

    def _assert(self, node: ast.Assert, at: At) -> Steps:
        self.program.loud.update(map(id, ast.walk(node.test)))
        return each(children(node), at)

    def _compare(self, node: ast.Compare, at: At) -> Steps:
        """Note `"get_scaled_loss" in dir(optimizer)`."""
        if isinstance(node.left, ast.Constant) and node.left.value in names.SCALING:
            self.program.note(node, *at)
        return each(children(node), at)

    def _constant(self, node: ast.Constant, at: At) -> Steps:
        text = node.value
        if isinstance(text, str) and (
            text in _LOGGED or any(part in text for part in _SPELLING)
        ):
            self.program.texts.append(Site(node, *at, self.program.cell))
        return []


# Type of node -> its method, which has the same name. An f-string at each node is slow.
_METHODS = {
    kind: getattr(_Notes, f"_{name.lower()}")
    for name, kind in vars(ast).items()
    if hasattr(_Notes, f"_{name.lower()}")
}
