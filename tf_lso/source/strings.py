"""Strings that spell an old name: asked for, imported, in annotations, code to run.

Calls come before the chains of a plan, since they also plan the chains in their
arguments.
"""

import ast
import re
import typing
from collections.abc import Iterator

from tf_lso.source import lookup
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
_DOTTED = re.compile(r"(\w+)((?:\.\w+)+)")
# What takes types as texts, beside annotations.
_GENERIC = {*typing.__all__} - {"Literal"}
_TYPED = ("cast", "TypeVar", "NewType", "ForwardRef")


# --- Calls: `getattr`, `hasattr`, `import_module`.


def add_calls(plan: Plan) -> None:
    """Plan calls that reach an old name by a string."""
    for site in plan.program.sites:
        if not isinstance(site.node, ast.Call):
            continue
        function, given = plan.inference.function(site.node, site.scope), site.node.args
        if function in (GETATTR, HASATTR) and len(given) > 1:
            name = literal(given[1])
            if name is None:
                _computed(plan, site)
            else:
                _asked(plan, site, name, function == HASATTR)
        elif function in IMPORTS and given:
            _import(plan, site, literal(given[0]) or "", function == BUILTIN_IMPORT)


def _computed(plan: Plan, site: Site) -> None:
    for ref in plan.inference.of(site.node.args[0], site.scope).certain:
        path = ref.path if ref.path in lookup.MODULES else f"{ref.path}.mixed_precision"
        if path in lookup.MODULES and ref.path not in _ROOTS and not plan.moved(ref):
            new = f"tf_lso.{lookup.MODULES[path]}"
            plan.leave(site, site.node, left.DYNAMIC, f"{ref.path}.*", new)


def _asked(plan: Plan, site: Site, name: str, asks: bool) -> None:
    """Plan `getattr(tf.keras, "mixed_precision")`: another owner, the same name."""
    owner = site.node.args[0]
    found = plan.inference.of(owner, site.scope)
    refs = [ref for ref in found.certain if not plan.moved(ref)]
    if not refs:
        return
    stays = isinstance(plan.renaming.decide(f"{refs[0].path}.{name}"), Stays)
    # `decided` says why it stays. Nothing has to be done about a question.
    new = None if stays and asks else plan.decided(site, site.node, found, [name])
    if new is None or stays:
        return
    parts = refs[0].path.count(".") + 1
    # What stands for the owner, if both end alike.
    module = ".".join(new.module.split(".")[: parts - new.parts or None])
    text = plan.texts[site.cell]
    if not module or new.parts < parts or "#" in text.of(owner):
        return
    plan.read.add(id(owner))
    plan.edit(site.cell, text.start(owner), text.end(owner), plan.rooted(module))
    plan.fix(site, site.node, f"{module}.{name}")
    plan.needs.append((site.scope, found.certain))


def _import(plan: Plan, site: Site, path: str, builtin: bool) -> None:
    way = plan.renaming.at(site.node, path)
    if not isinstance(way, New):
        return
    given, text = site.node.args[0], plan.texts[site.cell]
    plan.read.add(id(given))
    spelled = text.of(given)
    if (builtin and "." in path) or spelled.count(path) != 1:
        plan.leave(site, given, left.DYNAMIC, path, way.module)
        return
    start = text.start(given) + spelled.index(path)
    plan.edit(site.cell, start, start + len(path), way.module)
    plan.fix(site, site.node, way.module)


# --- Other strings: annotations move, and what looks like code is listed.


def add_texts(plan: Plan) -> None:
    """Plan the strings that no call has planned."""
    sites = [site for site in plan.program.texts if id(site.node) not in plan.read]
    if not sites:
        return  # without walking the trees
    nodes = [node for tree in plan.trees.values() for node in ast.walk(tree)]
    types = {id(part) for n in nodes for kind in _types(n) for part in ast.walk(kind)}
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for site in sites:
        if id(site.node) in types:
            _annotation(plan, site)
        elif id(site.node) not in docstrings or ">>>" in site.node.value:
            _tell(plan, site)


def _types(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the types within a node: annotations, and what `typing` reads as types."""
    parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    if isinstance(node, ast.Subscript) and last_name(node.value) in _GENERIC:
        parts = [node.slice]
    elif isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.dump(node.annotation):
        parts.append(node.value)
    elif isinstance(node, ast.Call) and last_name(node.func) in _TYPED:
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
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
        plan.leave(site, site.node, left.TEXT, value.strip(), "tf_lso for tf")
        return
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    within = {id(node.value) for node in inner}
    chains = (site._replace(node=node) for node in inner if id(node) not in within)
    edits = [plan.chain(chain, site.node, Text(value)) for chain in chains]
    if any(edits):
        start = text.start(site.node) + spelled.index(value)
        new = applied(value, filter(None, edits))
        plan.edit(site.cell, start, start + len(value), new)
        plan.fix(site, site.node, new)


def _tell(plan: Plan, site: Site) -> None:
    value = site.node.value
    if dotted := _DOTTED.fullmatch(value):
        first = "tensorflow" if dotted[1] == "tf" else dotted[1]
        way = plan.renaming.decide(first + dotted[2])
        if isinstance(way, New):
            plan.leave(site, site.node, left.TEXT, value, way.spelled(value))
    elif code := _CODE.search(value):
        plan.leave(site, site.node, left.TEXT, code.group().strip(), "tf_lso for tf")
