"""Strings that spell an old name: annotations, names to look up, code to run."""

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tf_lso.source import reasons as left
from tf_lso.source.renaming import New
from tf_lso.source.scopes import Site
from tf_lso.source.syntax import last_name
from tf_lso.source.texts import Text, applied

if TYPE_CHECKING:
    from tf_lso.source.fixes import Plan

# A string that imports, calls or reaches an old name looks like code.
_CODE = re.compile(
    r"\bimport\b[^\n]*\bmixed_precision\b"
    r"|\bfrom\b[^\n]*\bmixed_precision\b[^\n]*\bimport\b"
    r"|\bmixed_precision\.(experimental\.)?\w+\s*\("
    r"|\btrain\.experimental\.\w+\s*\("
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
_USUAL = {"tf": "tensorflow"}
_TYPING = ("typing", "typing_extensions")
# Which arguments of a function of `typing` are types.
_TYPED = {
    "cast": slice(0, 1),
    "TypeVar": slice(1, None),
    "NewType": slice(1, None),
    "ForwardRef": slice(0, 1),
}


def plan(plan: "Plan") -> None:
    """Plan the strings of a program: annotations move, others are listed."""
    sites = [site for site in plan.program.texts if id(site.node) not in plan.read]
    if not sites:
        return  # without walking the trees
    nodes = [node for tree in plan.trees.values() for node in ast.walk(tree)]
    types = {id(s) for node in nodes for t in _types(plan, node) for s in _strings(t)}
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for site in sites:
        if id(site.node) in types:
            _annotation(plan, site)
        elif id(site.node) not in docstrings or ">>>" in site.node.value:
            _tell(plan, site)


def _strings(annotation: ast.AST) -> Iterator[ast.Constant]:
    if isinstance(annotation, ast.Subscript):
        if last_name(annotation.value) == "Literal":
            return
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield annotation
    for child in ast.iter_child_nodes(annotation):
        yield from _strings(child)


def _types(plan: "Plan", node: ast.AST) -> Iterator[ast.AST]:
    """Yield the types within a node: annotations, and what `typing` reads as types."""

    def name(node: ast.AST) -> str:
        paths = plan.inference.paths(node, plan.program.module)
        package, _, last = (paths[0] if len(paths) == 1 else "").rpartition(".")
        return last if package in _TYPING else ""

    parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    if isinstance(node, ast.Subscript) and name(node.value):
        parts = [node]
    elif isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.dump(node.annotation):
        parts.append(node.value)
    elif isinstance(node, ast.Call) and (which := name(node.func)) in _TYPED:
        parts = [*node.args[_TYPED[which]], *(k.value for k in node.keywords)]
    yield from filter(None, parts)


def _annotation(plan: "Plan", site: Site) -> None:
    """Plan the chains within a string annotation."""
    spelled = plan.texts[site.cell].of(site.node)
    value = site.node.value
    try:
        tree = ast.parse(value, mode="eval")
    except SyntaxError:
        tree = None
    if tree is None or spelled.count(value) != 1 or "\n" in value:
        plan.leave(site, site.node, value.strip(), left.TEXT, "tf_lso for tf")
        return
    inside = Text(value)
    found = []
    stack: list[ast.AST] = [tree.body]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Attribute):
            chain = Site(node, site.scope, site.guards, site.cell)
            found.append(plan.chain(chain, at=site.node, text=inside))
        else:
            stack.extend(ast.iter_child_nodes(node))
    edits = [edit for edit in found if edit]
    if edits:
        start = plan.texts[site.cell].start(site.node) + spelled.index(value)
        new = applied(value, edits)
        plan.edit(site.cell, start, start + len(value), new)
        plan.fix(site, site.node, new)


def _tell(plan: "Plan", site: Site) -> None:
    value = site.node.value
    if _DOTTED.fullmatch(value):
        first, _, rest = value.partition(".")
        way = plan.renaming.decide(f"{_USUAL.get(first, first)}.{rest}")
        if not isinstance(way, New):
            return
        tail = value.split(".")[way.parts :]
        plan.leave(site, site.node, value, left.TEXT, ".".join([way.module, *tail]))
    elif code := _CODE.search(value):
        name = code.group().strip()
        plan.leave(site, site.node, name, left.TEXT, "tf_lso for tf")
