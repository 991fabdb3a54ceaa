"""One pass over syntax trees: what they bind, places of interest, and their guards."""

import ast
import builtins
import collections
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tf_lso.names import old_behaviors
from tf_lso.source import scopes, syntax
from tf_lso.source.scopes import Branch, Derived, Imported, Scope, Site
from tf_lso.source.syntax import chain_of, last_name, listed, literal

# What the uses that are reported raise. Other exceptions do not matter.
_ERRORS = (ModuleNotFoundError, ImportError, AttributeError, TypeError, ValueError)
# By these names, modules pass TensorFlow on.
_HANDED_ON = ("tf", "tensorflow")
# Parts of the dotted names of the old modules.
_SPELLING = re.compile(r"mixed_precision|train(ing)?\.experimental")
_OF_INTEREST = (*syntax.IMPORT_STATEMENTS, ast.Attribute, ast.Call, ast.ClassDef)


class Program:
    """The scopes and sites of the trees of one file or notebook, by cell."""

    def __init__(self, trees: dict[int | None, ast.Module]) -> None:
        self.module = Scope(scopes.MODULE)  # all cells of a notebook share it
        self.scopes = [self.module]
        # Imports, outermost attribute chains, calls and classes, in order.
        self.sites: list[Site] = []
        self.texts: list[Site] = []  # strings that may spell an old name
        self.stars: list[str] = []  # modules of `from … import *`
        self.imported: list[str] = []  # the path of each imported name
        self.packages: set[str] = set()  # their first parts
        # Words of chains, imports and getattr -> the functions that they stand in.
        self.words = collections.defaultdict[str, set[Scope | None]](set)
        self.stored: set[str] = set()  # attributes that are assigned to, of any object
        self.calls: dict[int, ast.Call] = {}  # by the id of what is called
        # Ids of the classes of isinstance and issubclass, and of the objects of getattr
        # and hasattr.
        self.type_tests: set[int] = set()
        self.quiet: set[int] = set()
        # (site, name, class) of isinstance(name, class).
        self._evidence: list[tuple[Site, str, ast.expr]] = []
        # Name of an assignment -> (its value, where it is bound if not here).
        self._given: dict[ast.AST, tuple[ast.expr | None, Scope | None]] = {}
        for cell, tree in trees.items():
            self._walk(Site(tree, self.module, (), cell))
        self._move_declared()
        for site, name, asked in self._evidence:
            if owner := site.scope.find(name):
                believed = Derived((asked,), instance=True)
                site._replace(guards=()).bind(name, believed, owner)

    def _walk(self, tree: Site) -> None:
        """Take a tree into the program. Its own stack takes trees of any depth."""
        places: dict[ast.AST, Site] = {}
        stack = [tree]
        while stack:
            at = stack.pop()
            self._bind(at)
            self._note(at)
            for nodes, place in self._inside(at):
                places.update(dict.fromkeys(nodes, place))
            parts = [*ast.iter_child_nodes(at.node)]
            if isinstance(at.node, ast.Attribute):
                parts = [chain_of(at.node)[0].value]
            stack += (places.pop(p, at)._replace(node=p) for p in reversed(parts))

    def _move_declared(self) -> None:
        """Move names that functions declare global or nonlocal to where they live."""
        for scope in self.scopes:
            for name, kind in scope.elsewhere.items():
                bound = scope.names.pop(name, [])
                owner = scope.parent.find(name) if scope.parent else None
                if kind == "global" or owner is None:
                    owner = self.module
                owner.names[name] += bound

    def _inside(self, at: Site) -> Iterator[tuple[Iterable[Any], Site]]:
        """Yield (nodes, the place that they stand in) of what stands otherwise than `at`."""
        node = at.node

        def scope(kind: str) -> Site:
            self.scopes.append(Scope(kind, at.scope, node))
            return at._replace(scope=self.scopes[-1])

        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                inside = scope(scopes.FUNCTION)
                _bind_parameters(at, inside)
                # The body runs outside of the `try` around it.
                outside = (g for g in at.guards if not isinstance(g, scopes.Caught))
                yield _body(node.body), inside._replace(guards=tuple(outside))
            case ast.ClassDef():
                yield node.body, scope(scopes.CLASS)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield ast.iter_child_nodes(node), scope(scopes.COMPREHENSION)
                yield [node.generators[0].iter], at
            case ast.If(test) | ast.IfExp(test) | ast.While(test):
                yield _body(node.body), at.under(Branch(test, at.scope, True))
                yield _body(node.orelse), at.under(Branch(test, at.scope, False))
                negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
                if _ends_loudly(_body(node.body if negated else node.orelse)):
                    yield [test], at.under(scopes.Loud(test))
            case ast.Assert(test):
                yield [test], at.under(scopes.Loud(test))
            case ast.BoolOp(op, values):
                for value in values:
                    yield [value], at
                    at = at.under(Branch(value, at.scope, isinstance(op, ast.And)))
            case ast.With(items) | ast.AsyncWith(items):
                for item in items:
                    call: Any = item.context_expr
                    if last_name(getattr(call, "func", None)) == "suppress":
                        at = at.under(_caught(call.args))
                yield node.body, at
            case _ if handlers := getattr(node, "handlers", ()):  # also of `except*`
                raises = all(_ends_loudly(handler.body) for handler in handlers)
                yield node.body, at.under(_caught([h.type for h in handlers], raises))
                fallback = at.under(scopes.Fallback(tuple(node.body), at.scope))
                yield (h for h in handlers if _caught([h.type])), fallback

    def _note(self, at: Site) -> None:
        """Note a place of interest, and what it tells of the program."""
        node, words = at.node, []
        if isinstance(node, _OF_INTEREST):
            self.sites.append(at)
        match node:
            case ast.Import(aliases) | ast.ImportFrom(_, aliases):
                paths = syntax.imported_paths(node)
                self.imported += paths
                self.packages.update(path.partition(".")[0] for path in paths)
                self.stars += (path[:-2] for path in paths if path.endswith(".*"))
                words = [alias.name for alias in aliases]
            case ast.Attribute():
                chain = chain_of(node)
                words = [last_name(chain[0].value), *(part.attr for part in chain)]
                if not isinstance(node.ctx, ast.Load):
                    self.stored.add(node.attr)
            case ast.Call(
                ast.Name("isinstance" | "issubclass" as asks), [one, kinds, *_]
            ):
                self.type_tests.update(map(id, listed(kinds)))
                if asks == "isinstance" and isinstance(one, ast.Name):
                    self._evidence += ((at, one.id, kind) for kind in listed(kinds))
            case ast.Call(ast.Name("getattr" | "hasattr" as asks), [owner, asked, *_]):
                self.quiet.add(id(owner))
                words = [literal(asked) or ""] if asks == "getattr" else []
            case ast.Constant(str(text)):
                if text == old_behaviors.LOGGED or _SPELLING.search(text):
                    self.texts.append(at)
        if isinstance(node, ast.Call):
            self.calls[id(node.func)] = node
        for word in words:
            self.words[word].add(at.scope.function)

    def _bind(self, at: Site) -> None:
        """Bind what a node binds."""
        match at.node:
            case ast.Import(aliases):
                for alias in aliases:
                    top = alias.name.partition(".")[0]
                    value = Imported(alias.name if alias.asname else top, at.node)
                    at.bind(alias.asname or top, value)
            case ast.ImportFrom(_, aliases):
                for alias, path in zip(aliases, syntax.imported_paths(at.node)):
                    module, _, name = path.rpartition(".")
                    guess = name in _HANDED_ON and module != "tensorflow"
                    path = "tensorflow" if guess else path
                    value = Imported(path, at.node, name, not guess)
                    at.bind(alias.asname or name, value)
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                at.bind(name)
            case ast.ClassDef(name, bases):
                at.bind(name, Derived(tuple(bases)))
            case ast.Assign(targets, value):
                for target in targets:
                    self._give(target, value)
            case ast.AnnAssign(target, _, value):
                self._give(target, value)
            case ast.NamedExpr(target, value):  # it binds outside of its comprehension
                around = at.scope.outwards()
                outer = next(s for s in around if s.kind != scopes.COMPREHENSION)
                self._given[target] = value, outer
            case ast.Name(name, ast.Store() | ast.Del()):
                at.bind(name, *self._given.pop(at.node, ()))
            case (
                ast.ExceptHandler(_, str(name))
                | ast.MatchAs(_, str(name))
                | ast.MatchStar(str(name))
            ):
                at.bind(name)
            case ast.Global(declared) | ast.Nonlocal(declared):
                kind = "global" if isinstance(at.node, ast.Global) else "nonlocal"
                if at.scope.kind != scopes.MODULE:
                    at.scope.elsewhere.update(dict.fromkeys(declared, kind))

    def _give(self, target: Any, value: Any) -> None:
        """Note the values of the names of an assignment, also of tuples to tuples."""
        if isinstance(target, ast.Name):
            self._given[target] = value, None
        elif target not in (several := listed(target)):
            given = listed(value)
            starred = any(isinstance(part, ast.Starred) for part in (*several, *given))
            if len(several) == len(given) and given != [value] and not starred:
                for pair in zip(several, given):
                    self._give(*pair)


def _bind_parameters(at: Site, inside: Site) -> None:
    value = None
    if at.scope.kind == scopes.CLASS and not getattr(at.node, "decorator_list", True):
        value = Derived(tuple(at.scope.node.bases), instance=True)
    for arg in ast.iter_child_nodes(at.node.args):
        if isinstance(arg, ast.arg):
            known = scopes.Binding(value, at.scope.parent or at.scope)
            inside.scope.names[arg.arg].append(known)
            value = None  # only the first one is `self`


def _body(part: Any) -> list[Any]:
    """Return the statements of a branch or function, or its one expression."""
    return part if isinstance(part, list) else [part]


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
    kinds = (getattr(builtins, name, None) for name in names)
    classes = tuple(kind for kind in kinds if isinstance(kind, type))
    errors = frozenset(e.__name__ for e in _ERRORS if issubclass(e, classes))
    return scopes.Caught(errors, raises) if errors else None
