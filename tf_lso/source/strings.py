"""Strings that spell an old name: asked for, imported, in annotations, code to run.

Calls come before the chains of a plan, since they also plan the chains in their
arguments.
"""

import ast
import re
from collections.abc import Iterator

from tf_lso.source import forms, lookup
from tf_lso.source import reasons as left
from tf_lso.source.fixes import Plan
from tf_lso.source.renaming import New, Stays
from tf_lso.source.scopes import Site
from tf_lso.source.syntax import (
    BUILTIN_IMPORT,
    GETATTR,
    HASATTR,
    IMPORTS,
    last_name,
    literal,
)
from tf_lso.source.texts import Text, applied

# Prefixes with many attributes: a computed name is nearly always another one.
_ROOTS = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")
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


# --- Calls: `getattr`, `hasattr`, `import_module`, and constructors.


def add_calls(plan: Plan) -> None:
    """Plan calls that reach an old name by a string, or that tf_lso refuses."""
    for site in plan.program.sites:
        if not isinstance(site.node, ast.Call):
            continue
        function = plan.inference.function(site.node, site.scope)
        if function in (GETATTR, HASATTR) and len(site.node.args) > 1:
            name = literal(site.node.args[1])
            if name is None:
                _computed(plan, site)
            else:
                _asked(plan, site, name, function == HASATTR)
        elif function in IMPORTS:
            _import(plan, site, function)
        else:
            _constructor(plan, site)


def _computed(plan: Plan, site: Site) -> None:
    owner = site.node.args[0]
    for ref in plan.inference.of(owner, site.scope).certain:
        inside = lookup.MODULES.get(f"{ref.path}.mixed_precision")
        above = inside and ref.path not in _ROOTS
        if above or (ref.path in lookup.MODULES and not plan.moved(ref)):
            new = f"tf_lso.{lookup.MODULES.get(ref.path, inside)}"
            plan.leave(site, site.node, f"{ref.path}.*", left.DYNAMIC, new)
            return


def _asked(plan: Plan, site: Site, name: str, asks: bool) -> None:
    """Plan `getattr(tf.keras, "mixed_precision")`: another owner, the same name."""
    owner = site.node.args[0]
    found = plan.inference.of(owner, site.scope)
    if all(map(plan.moved, found.certain)):
        return
    way = plan.renaming.decide(f"{found.certain[0].path}.{name}")
    stays = isinstance(way, Stays)
    if stays and asks:
        return
    new = plan.decided(site, site.node, found, [name])  # or says why it stays
    if new is None or stays:
        return
    ref = next(r for r in found.certain if not plan.moved(r))
    parts = ref.path.count(".") + 1
    module, text = new.owner(parts), plan.texts[site.cell]
    if not module or new.parts < parts or "#" in text.of(owner):
        return
    plan.read.add(id(owner))
    plan.edit(site.cell, text.start(owner), text.end(owner), plan.rooted(module))
    plan.fix(site, site.node, f"{module}.{name}")
    plan.needs.append((site.scope, found.certain))


def _import(plan: Plan, site: Site, function: str) -> None:
    node = site.node
    path = literal(node.args[0]) if node.args else None
    way = plan.renaming.at(node, path) if path else None
    if path is None or not isinstance(way, New):
        return
    given, text = node.args[0], plan.texts[site.cell]
    plan.read.add(id(given))
    first_only = function == BUILTIN_IMPORT and "." in path
    spelled = text.of(given)
    if first_only or spelled.count(path) != 1:
        plan.leave(site, given, path, left.DYNAMIC, way.module)
        return
    start = text.start(given) + spelled.index(path)
    plan.edit(site.cell, start, start + len(path), way.module)
    plan.fix(site, node, way.module)


def _constructor(plan: Plan, site: Site) -> None:
    """List a call that no version took, and that tf_lso refuses."""
    node, scope = site.node, site.scope
    for path in plan.inference.paths(node.func, scope):
        form = forms.of_call(lookup.of_path(path), path, node, scope, plan.inference)
        if form and (form.tf_lso.startswith("Refuses") or "everywhere" in form.today):
            if isinstance(plan.renaming.decide(path), New):
                do = form.tf_lso.removeprefix("Refuses it, too. ")
                plan.leave(site, node, path, left.REFUSED, do)


# --- Other strings: annotations move, and what looks like code is listed.


def add_texts(plan: Plan) -> None:
    """Plan the strings that no call has planned."""
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


def _types(plan: Plan, node: ast.AST) -> Iterator[ast.AST]:
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


def _annotation(plan: Plan, site: Site) -> None:
    """Plan the chains within a string annotation."""
    text, value = plan.texts[site.cell], site.node.value
    spelled = text.of(site.node)
    try:
        tree = ast.parse(value, mode="eval")
    except SyntaxError:
        tree = None
    if tree is None or spelled.count(value) != 1 or "\n" in value:
        plan.leave(site, site.node, value.strip(), left.TEXT, "tf_lso for tf")
        return
    edits = []
    stack: list[ast.AST] = [tree.body]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Attribute):
            edits.append(plan.chain(site._replace(node=node), site.node, Text(value)))
        else:
            stack.extend(ast.iter_child_nodes(node))
    if any(edits):
        start = text.start(site.node) + spelled.index(value)
        new = applied(value, filter(None, edits))
        plan.edit(site.cell, start, start + len(value), new)
        plan.fix(site, site.node, new)


def _tell(plan: Plan, site: Site) -> None:
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
