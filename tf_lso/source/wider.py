"""Uses that are more than a name of the loss-scaling API: what `install()` does beyond.

They count in programs that use the old API, where a migrated program needs `install()`
for them. Two stand for themselves: optimizer classes by the old protocol, which train
wrong without a word, and TensorFlow's private state of a loss scale.
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

from tf_lso import optimizer_table as table
from tf_lso.names import old_behaviors as beyond
from tf_lso.source import rules
from tf_lso.source.diagnostics import OTHER, Use
from tf_lso.source.handled import Care
from tf_lso.source.inference import Inference, optimizer_of
from tf_lso.source.scopes import Derived, Program, Scope, Site
from tf_lso.source.syntax import chain_of, last_name, literal
from tf_lso.source.verdict import BREAKS, UNSURE, Verdict

# (rule, node, what is used)
_Wider = tuple[str, Any, str]

_OPTIMIZER = re.compile(r"(^|_)(opt|optim|optimizer|inner)s?\d*$", re.IGNORECASE)
_KERAS = ("keras.", "tensorflow.keras.")
# A class of today's Keras, from which a program derives its own optimizer.
_BASE = re.compile(
    r"(tensorflow\.)?(compat\.v2\.)?keras\.optimizers\.(?!legacy|schedules)\w+"
)

_TODAY = {
    rules.OPTIMIZER: "Keras 3's optimizers do not have it, or do something else.",
    rules.FILES: "An optimizer that an older version wrote is refused, or left out "
    "without a word.",
    rules.PROTOCOL: "Never called by the optimizers since TensorFlow 2.11: the class "
    "trains as its base class does, or fails.",
    rules.STATE: "TensorFlow's private classes and attributes of loss scales are gone "
    "from Keras 3, and tf_lso has others.",
}
_TF_LSO = {
    rules.OPTIMIZER: "Under tf_lso.install() it works as it did.",
    rules.FILES: "Under tf_lso.install() it is restored whole.",
    rules.PROTOCOL: "tf-lso run --like 2.4 and install(like='2.4') give it the old base "
    "class.",
    rules.STATE: "tf_lso.LossScale is the base class for loss scales of your own.",
}
# Private classes of the state of a loss scale, which programs derived from.
_STATES = {"_DynamicLossScaleState"}


def uses(values: Inference, care: Care, has_old_names: bool) -> list[Use]:
    """Return the uses of a program; `has_old_names` says whether those below count."""
    if values.target.like is not None and values.target.legacy_optimizers:
        return []
    found: list[Use] = []
    for site in values.program.sites:
        if isinstance(site.node, ast.ClassDef):
            each = _class(values, site, has_old_names)
        elif has_old_names and isinstance(site.node, ast.Call):
            each = _call(values, site)
        elif isinstance(site.node, ast.Call):
            continue
        else:
            each = _path(values, site, has_old_names)
        found += [_use(values, care, site, *one) for one in each]
    if has_old_names:
        found += [_use(values, care, *one) for one in _logged(values.program)]
    return found


def _use(
    values: Inference, care: Care, site: Site, rule: str, node: Any, what: str
) -> Use:
    today, status = _TODAY[rule], BREAKS
    if rule == rules.FILES:
        status = UNSURE  # it may be one that this version wrote
    elif values.target.keras_2:
        status = UNSURE
        today = "The optimizers of TensorFlow 2.11-2.15 lack it, or do something else."
    verdict = Verdict(what, status, today, _TF_LSO[rule])
    verdict, guarded = care.of(site, verdict, None, "")
    line, offset = node.lineno, node.col_offset
    if isinstance(node, ast.Attribute):  # where the attribute's own name stands
        end: Any = node
        line, offset = end.end_lineno, end.end_col_offset - len(end.attr.encode())
    return Use(rule, site.cell, line, offset, OTHER, guarded, verdict)


# --- Imports and chains of attributes.


def _path(values: Inference, site: Site, has_old_names: bool) -> Iterator[_Wider]:
    node = site.node
    for part in chain_of(node):
        if part.attr == "_loss_scale" and not isinstance(part.ctx, ast.Load):
            if _looks_like_optimizer(part.value):
                yield rules.STATE, part, f"`{ast.unparse(part)}`"
    if not has_old_names:
        return
    for path in values.paths(node, site.scope):
        for space in beyond.OPTIMIZER_NAMESPACES:
            if f"{path}.".startswith(tuple(f"{k}{space}." for k in _KERAS)):
                yield rules.OPTIMIZER, node, f"`{space}`"
    for path in _modules(node):
        if f"{path}.".startswith(tuple(f"{p}." for p in beyond.PACKAGES)):
            yield rules.OPTIMIZER, node, f"the package `{path}`"
    for part in chain_of(node):
        if part.attr in beyond.ATTRIBUTES:
            if _is_optimizer(values, part.value, site.scope):
                yield rules.OPTIMIZER, part, f"`{part.attr}` of an optimizer"


def _modules(node: ast.AST) -> list[str]:
    """Return the modules that an import statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def _looks_like_optimizer(node: ast.AST) -> bool:
    return bool(_OPTIMIZER.search(last_name(node)))


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "super"


# --- Calls.


def _call(values: Inference, site: Site) -> Iterator[_Wider]:
    call = site.node
    name = last_name(call.func)
    given = {keyword.arg for keyword in call.keywords}
    if name in table.OLD:
        for argument in sorted(given.intersection(beyond.ARGUMENTS)):
            yield rules.OPTIMIZER, call, f"the argument `{argument}` of an optimizer"
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if name == "apply_gradients" and owner is not None:
        is_one = _looks_like_optimizer(owner) or _is_super(owner)
        if is_one and not _is_scaled(values, owner, site.scope):
            for argument in sorted(given.intersection(beyond.APPLY_ARGUMENTS)):
                what = f"the argument `{argument}` of apply_gradients"
                yield rules.OPTIMIZER, call, what
    if name in beyond.SCHEDULED and owner is not None and _looks_like_optimizer(owner):
        yield rules.OPTIMIZER, call, f"`{name}` of an optimizer, called"
    paths = values.paths(call.func, site.scope)
    text = literal(call.args[0]) if call.args else None
    for known in (*beyond.LOADING, *beyond.BACKEND):
        if any(p.startswith(_KERAS) and p.endswith(f".{known}") for p in paths):
            what = f"`{known.rpartition('.')[2]}`"
            if known in beyond.BACKEND:
                yield rules.OPTIMIZER, call, f"{what} of the backend"
            elif (
                known != "optimizers.get" or text is None
            ):  # `get("adam")` is no config
                yield rules.FILES, call, f"{what} of what an older version wrote"
    if name in beyond.RESTORING and owner is not None and not paths:
        makers = beyond.RESTORING[name]
        of_model = text is not None and text.endswith((".h5", ".hdf5"))
        if makers or not of_model or (text or "").endswith(".weights.h5"):
            if not makers or _is_made_by(values, owner, site.scope, makers):
                yield rules.FILES, call, f"`{name}` of what an older version wrote"


def _is_made_by(
    values: Inference, node: ast.AST, scope: Scope, makers: tuple[str, ...]
) -> bool:
    """Whether an object comes from a call of one of the functions, or may do so."""
    if isinstance(node, ast.Call):
        return last_name(node.func) in makers
    if isinstance(node, ast.Attribute):  # `self.checkpoint`
        return bool(re.search("ckpt|checkpoint|manager|saver", node.attr, re.I))
    owner = scope.find(node.id) if isinstance(node, ast.Name) else None
    bound = owner.names[node.id] if owner and isinstance(node, ast.Name) else []
    return any(
        isinstance(binding.value, ast.Call)
        and _is_made_by(values, binding.value, binding.scope, makers)
        for binding in bound
    )


def _is_scaled(values: Inference, node: ast.AST, scope: Scope) -> bool:
    """Whether an object is known to be a LossScaleOptimizer, which needs no help."""
    found = values.values(node, scope)
    return bool(found) and all(map(optimizer_of, found))


def _is_optimizer(
    values: Inference, node: ast.AST, scope: Scope, depth: int = 4
) -> bool:
    """Whether an object looks like an optimizer that may not be wrapped."""
    if not depth:
        return False
    if isinstance(node, ast.Attribute):
        return _looks_like_optimizer(node)
    if isinstance(node, ast.Call):
        return last_name(node.func) in table.OLD
    if isinstance(node, ast.IfExp):
        parts = (node.body, node.orelse)
        return any(_is_optimizer(values, part, scope, depth - 1) for part in parts)
    if not isinstance(node, ast.Name):
        return False
    owner = scope.find(node.id)
    known = False
    for binding in owner.names[node.id] if owner else ():
        if isinstance(binding.value, ast.expr):
            if _is_optimizer(values, binding.value, binding.scope, depth - 1):
                return True
            known |= _is_scaled(values, binding.value, binding.scope)
    return not known and _looks_like_optimizer(node)


# --- Classes.


def _class(values: Inference, site: Site, has_old_names: bool) -> Iterator[_Wider]:
    node = site.node
    bases = list(map(last_name, node.bases))
    if has_old_names and beyond.SCHEDULE in bases:
        base = node.bases[bases.index(beyond.SCHEDULE)]
        yield rules.OPTIMIZER, base, "a learning rate schedule of its own"
    for base in node.bases:
        paths = [*values.paths(base, site.scope), last_name(base)]
        for name in {path.rpartition(".")[2] for path in paths} & _STATES:
            yield rules.STATE, base, f"a class derived from `{name}`"
    methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    old = [methods[name] for name in beyond.PROTOCOL if name in methods]
    if old and _derives_from_keras(values, node.bases, site.scope):
        yield rules.PROTOCOL, old[0], f"`{old[0].name}` of an optimizer class"


def _derives_from_keras(
    values: Inference, bases: list[ast.expr], scope: Scope, depth: int = 6
) -> bool:
    """Whether a class is derived from today's optimizers, as far as can be seen."""
    for base in bases if depth else ():
        paths = values.paths(base, scope)
        if any(".legacy." in path or "tf_keras" in path for path in paths):
            return False  # it is for the legacy class where there is one
        if any(_BASE.fullmatch(path) for path in paths):
            return True
        name = last_name(base) if isinstance(base, ast.Name) else ""
        owner = scope.find(name)
        for binding in owner.names[name] if owner else ():
            if isinstance(binding.value, Derived) and not binding.value.instance:
                further = list(binding.value.bases)
                if _derives_from_keras(values, further, binding.scope, depth - 1):
                    return True
    return False


# --- Callbacks.


def _logged(program: Program) -> Iterator[tuple[Site, str, Any, str]]:
    """Yield uses of `history["lr"]` if a callback logs it."""
    called = {last_name(s.node.func) for s in program.sites if _is_call(s)}
    if called.isdisjoint(beyond.CALLBACKS):
        return
    for site in program.texts:
        if site.node.value == beyond.LOGGED:
            yield site, rules.OPTIMIZER, site.node, f"the logged `{beyond.LOGGED}`"


def _is_call(site: Site) -> bool:
    return isinstance(site.node, ast.Call)
