"""Uses that are more than a name of the loss-scaling API: what `install()` does old_behaviors.

They count in programs that use the old API, where a migrated program needs `install()`
for them. Two stand for themselves: optimizer classes by the old protocol, which train
wrong without a word, and TensorFlow's private state of a loss scale.
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

from tf_lso import optimizer_table as table
from tf_lso.names import old_behaviors
from tf_lso.source import rules
from tf_lso.source.diagnostics import OTHER, Use
from tf_lso.source.guarded import Care
from tf_lso.source.inference import Inference, optimizer_of
from tf_lso.source.lookup import BREAKS, UNSURE, Verdict
from tf_lso.source.scopes import Scope, Site
from tf_lso.source.syntax import chain_of, last_name, literal

# (rule, node, what is used)
_Wider = tuple[str, Any, str]

_OPTIMIZER = re.compile(r"(^|_)(opt|optim|optimizer|inner)s?\d*$", re.IGNORECASE)
_CHECKPOINT = re.compile("ckpt|checkpoint|manager|saver", re.IGNORECASE)
_KERAS = ("keras.", "tensorflow.keras.")
# A class of today's Keras, from which a program derives its own optimizer.
_BASE = re.compile(
    r"(tensorflow\.)?(compat\.v2\.)?keras\.optimizers\.(?!legacy|schedules)\w+"
)
# Private classes of the state of a loss scale, which programs derived from.
_STATES = {"_DynamicLossScaleState"}

_LACKS = "Keras 3's optimizers do not have it, or do something else."
_LACKS_2 = "The optimizers of TensorFlow 2.11-2.15 lack it, or do something else."
# Rule -> what happens today, and what tf_lso does.
_SAID = {
    rules.OPTIMIZER: (_LACKS, "Under tf_lso.install() it works as it did."),
    rules.FILES: (
        "An optimizer that an older version wrote is refused, or left out without a word.",
        "Under tf_lso.install() it is restored whole.",
    ),
    rules.PROTOCOL: (
        "Never called by the optimizers since TensorFlow 2.11: the class trains as its "
        "base class does, or fails.",
        "tf-lso run --like 2.4 and install(like='2.4') give it the old base class.",
    ),
    rules.STATE: (
        "TensorFlow's private classes and attributes of loss scales are gone from Keras "
        "3, and tf_lso has others.",
        "tf_lso.LossScale is the base class for loss scales of your own.",
    ),
}


def uses(values: Inference, care: Care, has_old_names: bool) -> list[Use]:
    """Return the uses of a program; `has_old_names` says whether those below count."""
    if values.target.like is not None and values.target.legacy_optimizers:
        return []
    found = []
    for site in values.program.sites:
        each = [*_by_itself(values, site)]
        if has_old_names:
            each += _call(values, site) if _is_call(site) else _reached(values, site)
        found += [_use(values, care, site, *one) for one in each]
    if has_old_names:
        found += [_use(values, care, *one) for one in _logged(values)]
    return found


def _use(
    values: Inference, care: Care, site: Site, rule: str, node: Any, what: str
) -> Use:
    (today, tf_lso), status = _SAID[rule], BREAKS
    if rule == rules.FILES:
        status = UNSURE  # it may be one that this version wrote
    elif values.target.keras_2:
        status, today = UNSURE, _LACKS_2
    verdict, guarded = care.of(site, Verdict(what, status, today, tf_lso), None, "")
    line, offset = node.lineno, node.col_offset
    if isinstance(node, ast.Attribute):  # where the attribute's own name stands
        end: Any = node
        line, offset = end.end_lineno, end.end_col_offset - len(end.attr.encode())
    return Use(rule, site.cell, line, offset, OTHER, guarded, verdict)


def _is_call(site: Site) -> bool:
    return isinstance(site.node, ast.Call)


# --- What counts by itself.


def _by_itself(values: Inference, site: Site) -> Iterator[_Wider]:
    node = site.node
    for part in chain_of(node):
        if part.attr == "_loss_scale" and not isinstance(part.ctx, ast.Load):
            if _looks_like_optimizer(part.value):
                yield rules.STATE, part, f"`{ast.unparse(part)}`"
    if not isinstance(node, ast.ClassDef):
        return
    for base in node.bases:
        paths = [*values.paths(base, site.scope), last_name(base)]
        for name in {path.rpartition(".")[2] for path in paths} & _STATES:
            yield rules.STATE, base, f"a class derived from `{name}`"
    methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    old = [methods[name] for name in old_behaviors.PROTOCOL if name in methods]
    if old and _derives_from_keras(values, node.bases, site.scope):
        yield rules.PROTOCOL, old[0], f"`{old[0].name}` of an optimizer class"


def _derives_from_keras(values: Inference, bases: list[ast.expr], scope: Scope) -> bool:
    """Whether a class is derived from today's optimizers, as far as can be seen."""
    above = [one for base in bases for one in values.origins(base, scope)]
    paths = [path for base, where in above for path in values.paths(base, where)]
    # It may be for the legacy class where there is one.
    kept = any(".legacy." in path or "tf_keras" in path for path in paths)
    return not kept and any(map(_BASE.fullmatch, paths))


# --- Imports, chains of attributes and classes beside the old API.


def _reached(values: Inference, site: Site) -> Iterator[_Wider]:
    node = site.node
    for path in values.paths(node, site.scope):
        for space in old_behaviors.OPTIMIZER_NAMESPACES:
            if f"{path}.".startswith(tuple(f"{k}{space}." for k in _KERAS)):
                yield rules.OPTIMIZER, node, f"`{space}`"
    for path in _modules(node):
        if f"{path}.".startswith(tuple(f"{p}." for p in old_behaviors.PACKAGES)):
            yield rules.OPTIMIZER, node, f"the package `{path}`"
    for part in chain_of(node):
        if part.attr in old_behaviors.ATTRIBUTES:
            if _is_optimizer(values, part.value, site.scope):
                yield rules.OPTIMIZER, part, f"`{part.attr}` of an optimizer"
    for base in getattr(node, "bases", ()):
        if last_name(base) == old_behaviors.SCHEDULE:
            yield rules.OPTIMIZER, base, "a learning rate schedule of its own"


def _modules(node: ast.AST) -> list[str]:
    """Return the modules that an import statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def _logged(values: Inference) -> Iterator[tuple[Site, str, Any, str]]:
    """Yield uses of `history["lr"]` if a callback logs it."""
    program = values.program
    called = {last_name(s.node.func) for s in program.sites if _is_call(s)}
    if not called.isdisjoint(old_behaviors.CALLBACKS):
        for site in program.texts:
            if site.node.value == old_behaviors.LOGGED:
                yield (
                    site,
                    rules.OPTIMIZER,
                    site.node,
                    f"the logged `{old_behaviors.LOGGED}`",
                )


# --- Calls.


def _call(values: Inference, site: Site) -> Iterator[_Wider]:
    call = site.node
    name = last_name(call.func)
    given = {keyword.arg or "" for keyword in call.keywords}
    if name in table.OLD:
        for argument in sorted(given.intersection(old_behaviors.ARGUMENTS)):
            yield rules.OPTIMIZER, call, f"the argument `{argument}` of an optimizer"
    paths = values.paths(call.func, site.scope)
    text = literal(call.args[0]) if call.args else None
    for known in (*old_behaviors.LOADING, *old_behaviors.BACKEND):
        if any(p.startswith(_KERAS) and p.endswith(f".{known}") for p in paths):
            what = f"`{known.rpartition('.')[2]}`"
            if known in old_behaviors.BACKEND:
                yield rules.OPTIMIZER, call, f"{what} of the backend"
            elif (
                known != "optimizers.get" or text is None
            ):  # `get("adam")` is no config
                yield rules.FILES, call, f"{what} of what an older version wrote"
    if isinstance(call.func, ast.Attribute):
        for rule, what in _method(values, site, call.func.value, name, given, text):
            yield rule, call, what


def _method(
    values: Inference,
    site: Site,
    owner: ast.expr,
    name: str,
    given: set[str],
    text: str | None,
) -> Iterator[tuple[str, str]]:
    """Yield (rule, what is used) of a call of `owner.name`."""
    is_one = _looks_like_optimizer(owner)
    if name == "apply_gradients" and (is_one or _is_super(owner)):
        if not _is_scaled(values, owner, site.scope):
            for argument in sorted(given.intersection(old_behaviors.APPLY_ARGUMENTS)):
                yield rules.OPTIMIZER, f"the argument `{argument}` of apply_gradients"
    if name in old_behaviors.SCHEDULED and is_one:
        yield rules.OPTIMIZER, f"`{name}` of an optimizer, called"
    if name in old_behaviors.RESTORING and not values.paths(site.node.func, site.scope):
        makers, file = old_behaviors.RESTORING[name], text or ""
        of_model = file.endswith((".h5", ".hdf5")) and not file.endswith(".weights.h5")
        of_model |= "by_name" in given  # which takes the weights of layers
        made = not makers or any(
            last_name(node.func) in makers
            if isinstance(node, ast.Call)
            else isinstance(node, ast.Attribute) and _CHECKPOINT.search(node.attr)
            for node, _ in values.origins(owner, site.scope)
        )
        if made and (makers or not of_model):
            yield rules.FILES, f"`{name}` of what an older version wrote"


# --- What looks like an optimizer.


def _looks_like_optimizer(node: ast.AST) -> bool:
    return bool(_OPTIMIZER.search(last_name(node)))


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "super"


def _is_scaled(values: Inference, node: ast.AST, scope: Scope) -> bool:
    """Whether an object is known to be a LossScaleOptimizer, which needs no help."""
    found = values.values(node, scope)
    return bool(found) and all(map(optimizer_of, found))


def _is_optimizer(values: Inference, node: ast.AST, scope: Scope) -> bool:
    """Whether an object looks like an optimizer that may not be wrapped."""
    origins = list(values.origins(node, scope))
    for one, _ in origins:
        if isinstance(one, ast.Call) and last_name(one.func) in table.OLD:
            return True
        if isinstance(one, ast.Attribute) and _looks_like_optimizer(one):
            return True
    return not any(_is_scaled(values, *one) for one in origins) and any(
        isinstance(one, ast.Name) and _looks_like_optimizer(one) for one, _ in origins
    )
