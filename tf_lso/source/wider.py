"""Uses that are more than a name of the loss-scaling API.

They count in programs that use the old API. Files of older versions need `install()` in a
migrated program. Two count by themselves: optimizer classes by the old protocol, which train
wrong without a word, and TensorFlow's private state of a loss scale.
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

from tf_lso import optimizer_table as table
from tf_lso.names import old_behaviors
from tf_lso.source import rules
from tf_lso.source.diagnostics import OTHER
from tf_lso.source.guarded import Use
from tf_lso.source.inference import Inference
from tf_lso.source.lookup import BREAKS, UNSURE, Verdict
from tf_lso.source.scopes import Scope, Site
from tf_lso.source.syntax import IMPORT_STATEMENTS, chain_of, last_name, literal

# (rule, node, what is used)
_Found = Iterator[tuple[str, Any, str]]
_BY_THEMSELVES = (rules.PROTOCOL, rules.STATE)

_OPTIMIZER = re.compile(r"(^|_)(opt|optim|optimizer|inner)s?\d*$", re.IGNORECASE)
_CHECKPOINT = re.compile("ckpt|checkpoint|manager|saver", re.IGNORECASE)
_KERAS = ("keras.", "tensorflow.keras.")
_PACKAGES = tuple(f"{package}." for package in old_behaviors.PACKAGES)
# A class of today's Keras, from which a program derives its own optimizer.
_BASE = re.compile(
    r"(tensorflow\.)?(compat\.v2\.)?keras\.optimizers\.(?!legacy|schedules)\w+"
)
# A private class of the state of a loss scale, which programs derived from.
_STATE = "_DynamicLossScaleState"

_LACKS = "Keras 3's optimizers do not have it, or do something else."
_LACKS_2 = "The optimizers of TensorFlow 2.11-2.15 lack it, or do something else."
# Rule -> what happens today, and what tf_lso does.
_SAID = {
    rules.OPTIMIZER: (
        _LACKS,
        "tf-lso run --like 2.4 and install(like='2.4') give the program the optimizers "
        "of its time.",
    ),
    rules.FILES: (
        "An optimizer that an older version wrote is refused, or left out without a word.",
        "Under tf_lso.install() a model is loaded with a LossScaleOptimizer, and a "
        "checkpoint is refused with the call that restores it.",
    ),
    rules.PROTOCOL: (
        "The optimizers of TensorFlow 2.11 and later neither have nor call it: the class "
        "trains as its base class does, or fails.",
        "tf-lso run --like 2.4 and install(like='2.4') give it the old base class.",
    ),
    rules.STATE: (
        "TensorFlow's private classes and attributes of loss scales are gone from Keras "
        "3, and tf_lso has others.",
        "tf_lso.LossScale is the base class for loss scales of your own.",
    ),
}


def uses(values: Inference, site: Site, has_old_names: bool) -> Iterator[Use]:
    """Yield the uses at a site; `has_old_names` says whether the program has others."""
    if values.target.legacy_optimizers:
        return
    kinds = {ast.Call: _call, ast.ClassDef: _class, ast.Constant: _text}
    for rule, node, what in kinds.get(type(site.node), _reached)(values, site):
        (today, tf_lso), status = _SAID[rule], BREAKS
        if rule == rules.FILES:
            status = UNSURE  # it may be one that this version wrote
        elif values.target.keras_2:
            status, today = UNSURE, _LACKS_2
        if has_old_names or rule in _BY_THEMSELVES:
            yield Use(rule, OTHER, node, Verdict(what, status, today, tf_lso))


def _class(values: Inference, site: Site) -> _Found:
    node, paths = site.node, list[str]()
    for base in node.bases:
        of_base = [value.path for value in values.values(base, site.scope)]
        if any(path.endswith(_STATE) for path in (*of_base, last_name(base))):
            yield rules.STATE, base, f"a class derived from `{_STATE}`"
        if last_name(base) == old_behaviors.SCHEDULE:
            yield rules.OPTIMIZER, base, "a learning rate schedule of its own"
        paths += of_base
    # It may be for the legacy class where there is one.
    kept = any(".legacy." in path or "tf_keras" in path for path in paths)
    if kept or not any(map(_BASE.fullmatch, paths)):
        return
    own: dict[str, ast.AST]
    own = {n.attr: n for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    own |= {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    if old := next(filter(own.get, old_behaviors.PROTOCOL), None):
        yield rules.PROTOCOL, own[old], f"`{old}` of an optimizer class"


def _text(values: Inference, site: Site) -> _Found:
    if site.node.value == old_behaviors.LOGGED:  # as in `history["lr"]`
        calls = values.program.calls.values()
        if any(last_name(call.func) in old_behaviors.CALLBACKS for call in calls):
            yield rules.OPTIMIZER, site.node, f"the logged `{old_behaviors.LOGGED}`"


def _reached(values: Inference, site: Site) -> _Found:
    """Yield what an import or a chain of attributes reaches."""
    node = site.node
    for path in values.paths(node, site.scope):
        for space in old_behaviors.OPTIMIZER_NAMESPACES:
            if f"{path}.".startswith(tuple(f"{k}{space}." for k in _KERAS)):
                yield rules.OPTIMIZER, node, f"`{space}`"
        if isinstance(node, IMPORT_STATEMENTS) and f"{path}.".startswith(_PACKAGES):
            package = getattr(node, "module", path)
            yield rules.OPTIMIZER, node, f"the package `{package}`"
    for part in chain_of(node):
        if part.attr == "_loss_scale" and not isinstance(part.ctx, ast.Load):
            if _looks_like_optimizer(part.value):
                yield rules.STATE, part, f"`{ast.unparse(part)}`"
        if part.attr in old_behaviors.ATTRIBUTES:
            if _is_optimizer(values, part.value, site.scope):
                yield rules.OPTIMIZER, part, f"`{part.attr}` of an optimizer"


def _call(values: Inference, site: Site) -> _Found:
    call = site.node
    name, text = last_name(call.func), literal(call.args[0]) if call.args else None
    given = {keyword.arg or "" for keyword in call.keywords}
    if name in table.OLD:
        for argument in sorted(given.intersection(old_behaviors.ARGUMENTS)):
            yield rules.OPTIMIZER, call, f"the argument `{argument}` of an optimizer"
    paths = values.paths(call.func, site.scope)
    for known in (*old_behaviors.LOADING, *old_behaviors.BACKEND):
        if not any(p.startswith(_KERAS) and p.endswith(f".{known}") for p in paths):
            continue
        what = f"`{known.rpartition('.')[2]}`"
        if known in old_behaviors.BACKEND:
            yield rules.OPTIMIZER, call, f"{what} of the backend"
        elif known != "optimizers.get" or text is None:  # `get("adam")` is no config
            yield rules.FILES, call, f"{what} of what an older version wrote"
    if not isinstance(call.func, ast.Attribute):
        return
    owner = call.func.value
    is_one = _looks_like_optimizer(owner)
    made = values.made(owner, site.scope)
    if name == "apply_gradients" and not any(v.is_optimizer for v in made):
        if is_one or (isinstance(owner, ast.Call) and last_name(owner.func) == "super"):
            for argument in sorted(given.intersection(old_behaviors.APPLY_ARGUMENTS)):
                what = f"the argument `{argument}` of apply_gradients"
                yield rules.OPTIMIZER, call, what
    if name in old_behaviors.SCHEDULED and is_one:
        yield rules.OPTIMIZER, call, f"`{name}` of an optimizer, called"
    if name in old_behaviors.RESTORING and not paths:
        if makers := old_behaviors.RESTORING[name]:
            named = isinstance(owner, ast.Attribute) and _CHECKPOINT.search(owner.attr)
            reads = named or any(v.path.endswith(makers) for v in made)
        else:  # `by_name` takes the weights of layers
            weights = re.search(r"(?<!\.weights)\.(h5|hdf5)$", text or "")
            reads = not weights and "by_name" not in given
        if reads:
            yield rules.FILES, call, f"`{name}` of what an older version wrote"


# --- What looks like an optimizer.


def _looks_like_optimizer(node: ast.AST) -> bool:
    return bool(_OPTIMIZER.search(last_name(node)))


def _is_optimizer(values: Inference, node: ast.AST, scope: Scope) -> bool:
    """Whether an object looks like an optimizer that may not be wrapped."""
    made = [value for value in values.made(node, scope) if not value.derived]
    if any(value.path.rpartition(".")[2] in table.OLD for value in made):
        return True
    return _looks_like_optimizer(node) and not any(v.is_optimizer for v in made)
