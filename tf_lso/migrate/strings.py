"""Strings that spell an old name: annotations, names to look up, code to run."""

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tf_lso.migrate import left
from tf_lso.migrate.paths import New, decide
from tf_lso.programs.scopes import Site
from tf_lso.programs.syntax import last_name
from tf_lso.programs.texts import Text, applied

if TYPE_CHECKING:
    from tf_lso.migrate.plan import Plan

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
    annotations = set().union(*map(annotations_of, plan.trees.values()))
    annotations |= {i for tree in plan.trees.values() for i in _typed(plan, tree)}
    docstrings = set().union(*map(docstrings_of, plan.trees.values()))
    for site in sites:
        if id(site.node) in annotations:
            _annotation(plan, site)
        elif id(site.node) in docstrings:
            if ">>>" in site.node.value:
                _tell(plan, site)
        else:
            _tell(plan, site)


def annotations_of(tree: ast.AST) -> set[int]:
    """Return the ids of the strings that are annotations, or parts of one."""
    found = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            part = getattr(node, field, None)
            if isinstance(part, ast.AST):
                found |= {id(string) for string in _strings(part)}
    return found


def _strings(annotation: ast.AST) -> Iterator[ast.Constant]:
    if isinstance(annotation, ast.Subscript):
        name = annotation.value
        if last_name(name) == "Literal":
            return
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield annotation
    for child in ast.iter_child_nodes(annotation):
        yield from _strings(child)


def _typed(plan: "Plan", tree: ast.Module) -> Iterator[int]:
    """Yield the ids of strings that `typing` reads outside of annotations."""
    scope = plan.program.module

    def name(node: ast.AST) -> str:
        paths = [ref.path for ref in plan.resolver.of(node, scope).refs]
        package, _, last = (paths[0] if len(paths) == 1 else "").rpartition(".")
        return last if package in _TYPING else ""

    for node in ast.walk(tree):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Subscript) and name(node.value):
            parts = [node]
        elif isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.dump(
            node.annotation
        ):
            parts = [node.value]
        elif isinstance(node, ast.Call) and (which := name(node.func)) in _TYPED:
            parts = [*node.args[_TYPED[which]], *(k.value for k in node.keywords)]
        for part in filter(None, parts):
            yield from (id(string) for string in _strings(part))


def docstrings_of(tree: ast.AST) -> set[int]:
    """Return the ids of the strings that stand alone as statements."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


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


def _tell(plan: "Plan", site: Site) -> None:
    value = site.node.value
    if _DOTTED.fullmatch(value):
        first, _, rest = value.partition(".")
        way = decide(f"{_USUAL.get(first, first)}.{rest}", plan.settings)
        if not isinstance(way, New):
            return
        tail = value.split(".")[way.parts :]
        plan.leave(site, site.node, value, left.TEXT, ".".join([way.module, *tail]))
    elif code := _CODE.search(value):
        name = code.group().strip()
        plan.leave(site, site.node, name, left.TEXT, "tf_lso for tf")
