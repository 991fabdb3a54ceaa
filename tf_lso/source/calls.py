"""Calls that reach an old name by a string, or that tf_lso refuses."""

import ast
from typing import TYPE_CHECKING

from tf_lso.source import constructors, lookup
from tf_lso.source import reasons as left
from tf_lso.source.inference import Found, Inference, Value
from tf_lso.source.renaming import New, Stays
from tf_lso.source.scopes import Site
from tf_lso.source.syntax import GETATTR, HASATTR, IMPORTS, imported, literal

if TYPE_CHECKING:
    from tf_lso.source.fixes import Plan

# Prefixes with many attributes: a computed name is nearly always another one.
_ROOTS = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")


def plan(plan: "Plan", site: Site) -> None:
    """Plan a call: `getattr`, `hasattr`, `import_module`, or a constructor."""
    node = site.node
    function = plan.inference.function(node, site.scope)
    if function in (GETATTR, HASATTR) and len(node.args) > 1:
        _asked(plan, site, function)
    elif function in IMPORTS:
        _import(plan, site, function)
    else:
        _constructor(plan, site)


def _asked(plan: "Plan", site: Site, function: str) -> None:
    owner, name = site.node.args[:2]
    found = plan.inference.of(owner, site.scope)
    text = literal(name)
    if text is not None:
        _literal(plan, site, function, found, text)
        return
    for ref in found.certain:
        inside = lookup.MODULES.get(f"{ref.path}.mixed_precision")
        above = inside and ref.path not in _ROOTS
        if above or (ref.path in lookup.MODULES and not plan.moved(ref)):
            new = f"tf_lso.{lookup.MODULES.get(ref.path, inside)}"
            plan.leave(site, site.node, f"{ref.path}.*", left.DYNAMIC, new)
            return


def _literal(plan: "Plan", site: Site, function: str, found: Found, name: str) -> None:
    """Plan `getattr(tf.keras, "mixed_precision")`: another owner, the same name."""
    if all(map(plan.moved, found.certain)):
        return
    owner = site.node.args[0]
    first = found.certain[0]
    stays = isinstance(plan.renaming.decide(f"{first.path}.{name}"), Stays)
    if stays and function == HASATTR:
        return
    new = plan.decided(site, site.node, found, [name])  # or says why it stays
    if new is None or stays:
        return
    ref = next(r for r in found.certain if not plan.moved(r))
    parts = ref.path.count(".") + 1
    module = new.owner(parts)
    if not module or new.parts < parts or "#" in plan.texts[site.cell].of(owner):
        return
    text = plan.texts[site.cell]
    plan.read.add(id(owner))
    plan.edit(site.cell, text.start(owner), text.end(owner), plan.rooted(module))
    plan.fix(site, site.node, f"{module}.{name}")
    plan.need(site.scope, found.certain)


def _import(plan: "Plan", site: Site, function: str) -> None:
    node = site.node
    path = imported(node, function, whole=True)
    way = plan.renaming.at(node, path) if path else None
    if not isinstance(way, New):
        return
    literal = node.args[0]
    plan.read.add(id(literal))
    first_only = function == IMPORTS[0] and imported(node, function) != path
    text = plan.texts[site.cell]
    spelled = text.of(literal)
    if first_only or spelled.count(path) != 1:
        plan.leave(site, literal, path, left.DYNAMIC, way.module)
        return
    start = text.start(literal) + spelled.index(path)
    plan.edit(site.cell, start, start + len(path), way.module)
    plan.fix(site, node, way.module)


def _constructor(plan: "Plan", site: Site) -> None:
    """List a call that no version took, and that tf_lso refuses."""
    found = plan.inference.of(site.node.func, site.scope)
    for ref in found.certain:
        form = form_of(plan.inference, ref, site)
        if form and (form[1].startswith("Refuses") or "error everywhere" in form[0]):
            if isinstance(plan.renaming.decide(ref.path), New):
                do = form[1].removeprefix("Refuses it, too. ")
                plan.leave(site, site.node, ref.path, left.REFUSED, do)


def form_of(resolver: Inference, ref: Value, site: Site) -> tuple[str, str] | None:
    """Return what a constructor's form does today and in tf_lso, or None."""
    verdict = lookup.of_path(ref.path)
    if verdict is None or not lookup.is_name(ref.path):
        return None

    def values(expression: ast.expr) -> set[Value]:
        found: Found = resolver.of(getattr(expression, "func", expression), site.scope)
        called = isinstance(expression, ast.Call)
        return {Value(r.path, instance=called) for r in found.certain}

    form = constructors.of_call(verdict, ref.path, site.node, values)
    return (form.today, form.tf_lso) if form else None
