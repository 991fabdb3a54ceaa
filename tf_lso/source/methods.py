"""Methods and properties of the old optimizer, on objects whose class is not seen."""

import ast
from collections.abc import Iterator

from tf_lso.names import ANYWHERE, CALLED, KNOWN_CALLED, METHODS
from tf_lso.names.targets import Target
from tf_lso.source import lookup, rules
from tf_lso.source.diagnostics import METHOD
from tf_lso.source.guarded import Use, passes_over
from tf_lso.source.inference import Inference
from tf_lso.source.lookup import BREAKS, UNSURE, WORKS, WRONG, Verdict
from tf_lso.source.program import Program
from tf_lso.source.scopes import CLASS, FUNCTION, Scope, Site
from tf_lso.source.syntax import chain_of, last_name

_TENSORFLOW = lookup.FRAMEWORKS | {"tf_lso", "tensorflow_addons"}
# A file that imports one of these, but not TensorFlow, has that library's optimizers.
_OTHERS = frozenset(
    "torch apex deepspeed fairseq pytorch_lightning lightning jax flax optax mindspore "
    "mxnet oneflow paddle chainer".split()
)
# A use on an object called so, if nothing is known of it.
_OPTIMIZER_NAMES, _OF_OPTIMIZERS = ("optimizer", "opt"), ("loss_scale", "_optimizer")
# Methods that optimizer classes of a program's own inherit, too.
_OF_CLASSES = ("_decayed_lr",)


def _of_name(name: str, called: bool, target: Target) -> Verdict:
    """Return the verdict on a method or property of that name in `names.METHODS`."""
    method = METHODS[name]
    status, today, current = BREAKS, method.breaks.format(name), method.current
    if target.keras_2:
        status, today, current = WORKS, "Works as it did.", ""
        if called and not method.callable:
            status, today = BREAKS, "TypeError: The stable class has it as a tensor."
        elif method.lacking:
            status = UNSURE
            today = "AttributeError where the inner optimizer is one of "
            today += f"{method.lacking}. Otherwise it works."
    elif not method.breaks:
        status, today = WORKS, "Works: Keras 3's LossScaleOptimizer has it, too."
    error = today.partition(":")[0] if status == BREAKS else ""
    full = f"LossScaleOptimizer.{name}"
    return Verdict(full, status, today, method.does, error, current)


def uses(values: Inference, site: Site, reached: bool) -> Iterator[Use]:
    """Yield the uses of methods at a site.

    A guard that passes over one in silence counts in a program that gets that far.
    """
    for part in chain_of(site.node):
        if part.attr in METHODS and isinstance(part.ctx, ast.Load):
            yield from _use(values, site, part, part, reached)
    for part, asks in values.asked(site):
        if part.attr in METHODS and METHODS[part.attr].seen == ANYWHERE:
            yield from _use(values, site, site.node, part, reached, asks)


def _use(
    values: Inference,
    site: Site,
    at: ast.expr,
    part: ast.Attribute,
    reached: bool,
    asks: bool = False,
) -> Iterator[Use]:
    """Yield the use of an attribute at a node; `asks` says whether it is asked for."""
    verdict = _of_access(part, id(at) in values.program.calls, site, values)
    if not verdict:
        return
    rule, asked = rules.METHOD, "" if asks else part.attr
    gone = verdict.status == BREAKS
    if reached and gone and passes_over(values, site, part.attr, asks):
        rule, verdict = rules.SILENT, _silent(verdict, part.attr)
    verdict = verdict.asked() if asks else verdict
    yield Use(rule, METHOD, at, verdict, asked=asked)


def _silent(verdict: Verdict, name: str) -> Verdict:
    """Return the verdict on a guarded method where today's optimizer is passed over."""
    return verdict.but(
        WRONG,
        f"Trains wrong, silently: Keras 3's LossScaleOptimizer has no {name}, so the "
        "guard leaves it out. The loss is not scaled, and the gradients are divided by "
        "the scale all the same.",
        tf_lso="Its optimizers have it, so the guard finds it: under tf-lso run or "
        "tf_lso.install(), or where tf_lso wraps them.",
        error="",
    )


def _of_access(
    part: ast.Attribute, called: bool, site: Site, values: Inference
) -> Verdict | None:
    """Return the verdict on `….name`, or None if it is no use."""
    name, made = part.attr, values.made(part.value, site.scope)
    seen, verdict = METHODS[name].seen, _of_name(name, called, values.target)
    ours = any(v.path.startswith("tf_lso.") for v in made)
    of_names = {v for v in made if lookup.is_name(v.path)}
    tf_keras = {v for v in of_names if lookup.in_tf_keras(v.path)}
    known = any(v.is_optimizer for v in of_names - tf_keras)
    if _is_own(part, site.scope) or (not known and (ours or of_names - tf_keras)):
        return None  # policies, loss scales, and what tf_lso has
    if known and not values.copy_only:
        return None if seen == KNOWN_CALLED and not called else verdict
    if tf_keras or values.copy_only:
        library = "tf_keras" if tf_keras else "TensorFlow's own copy of Keras"
        today = f"Works: {library} still has it."
        works = verdict.but(WORKS, today, error="", current="")
        return works if seen in (ANYWHERE, CALLED) else None
    telling = seen == ANYWHERE or (seen == CALLED and called)
    why = _doubt(part, values.program, telling)
    if not why or verdict.status == WORKS:
        return None if why is None else verdict
    return verdict.but(UNSURE, f"{verdict.today} {why}", error="")


def _doubt(part: ast.Attribute, program: Program, telling: bool) -> str | None:
    """Return what speaks against a use on an unknown object, or None if it is no use.

    `telling` says whether only the old optimizers have such a method.
    """
    name, packages, method = part.attr, program.packages, METHODS[part.attr]
    stored, has_tensorflow = name in program.stored, bool(packages & _TENSORFLOW)
    if (
        (name in _OF_CLASSES and _is_self(part.value))  # it may inherit it
        or (packages & _OTHERS and not has_tensorflow)
        # Probably the program's own object; if not, it works.
        or (stored and not method.breaks)
    ):
        return None
    if not telling:
        named = name in _OF_OPTIMIZERS and last_name(part.value) in _OPTIMIZER_NAMES
        looks_so = named and has_tensorflow and not stored
        return "What this object is cannot be seen." if looks_so else None
    if packages & {"tf_lso", "tf_keras"}:
        return "An optimizer of tf_lso or tf_keras has it."
    if method.seen == CALLED:
        classes = (scope.names for scope in program.scopes if scope.kind == CLASS)
        if not has_tensorflow:
            return "No TensorFlow is imported here."
        if stored or any(name in bound for bound in classes):
            return f"This file has a {name} of its own."
    return ""


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_own(part: ast.Attribute, scope: Scope) -> bool:
    """Whether the object is `self`, and its class has the method itself."""
    above = (one.parent for one in scope.outwards() if one.kind == FUNCTION)
    owner = next((one for one in above if one and one.kind == CLASS), None)
    return _is_self(part.value) and owner is not None and part.attr in owner.names
