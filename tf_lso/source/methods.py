"""Methods and properties of the old optimizer, on objects whose class is not seen."""

import ast

from tf_lso import names
from tf_lso.names.targets import Target
from tf_lso.source import lookup
from tf_lso.source.inference import Inference
from tf_lso.source.lookup import BREAKS, UNSURE, WORKS, Verdict
from tf_lso.source.scopes import CLASS, FUNCTION, Scope, Site
from tf_lso.source.syntax import last_name

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
    method = names.METHODS[name]
    status, today, current = BREAKS, method.breaks, method.current
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


def of_access(node: ast.Attribute, site: Site, values: Inference) -> Verdict | None:
    """Return the verdict on `….name`, or None if it is no use."""
    name, program = node.attr, values.program
    method, called = names.METHODS[name], id(node) in program.calls
    anywhere = method.seen == names.ANYWHERE or (method.seen == names.CALLED and called)
    made = {v for v in values.values(node.value, site.scope) if v.instance}
    ours = any(v.path.startswith("tf_lso.") for v in made)
    of_names = {v for v in made if lookup.is_name(v.path)}
    tf_keras = {v for v in of_names if lookup.in_tf_keras(v.path)}
    known = any(v.is_optimizer for v in of_names - tf_keras)
    if _is_own(node, site.scope) or (not known and (ours or of_names - tf_keras)):
        return None  # policies, loss scales, and what tf_lso has
    verdict = _of_name(name, called, values.target)
    if known and not values.copy_only:
        alone = method.seen == names.KNOWN_CALLED and not called
        return None if alone else verdict
    if tf_keras or values.copy_only:
        library = "tf_keras" if tf_keras else "TensorFlow's own copy of Keras"
        today = f"Works: {library} still has it."
        shown = method.seen in (names.ANYWHERE, names.CALLED)
        return Verdict(verdict.name, WORKS, today, verdict.tf_lso) if shown else None
    if name in _OF_CLASSES and _is_self(node.value):
        return None  # of an optimizer class of the program's own
    packages, stored = program.packages, name in program.stored
    if packages & _OTHERS and not packages & _TENSORFLOW:
        return None
    if not method.breaks and stored:
        return None  # probably the program's own object; if not, it works
    why = ""
    if not anywhere:
        named = name in _OF_OPTIMIZERS and last_name(node.value) in _OPTIMIZER_NAMES
        if stored or not (named and packages & _TENSORFLOW):
            return None
        why = "What this object is cannot be seen."
    elif packages & {"tf_lso", "tf_keras"}:
        why = "An optimizer of tf_lso or tf_keras has it."
    elif method.seen == names.CALLED:
        classes = (scope.names for scope in program.scopes if scope.kind == CLASS)
        if not packages & _TENSORFLOW:
            why = "No TensorFlow is imported here."
        elif stored or any(name in bound for bound in classes):
            why = f"This file has a {name} of its own."
    if not why or verdict.status == WORKS:
        return verdict
    today = f"{verdict.today} {why}"
    return verdict.but(UNSURE, today, error="")


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_own(node: ast.Attribute, scope: Scope) -> bool:
    """Whether the object is `self`, and its class has the method itself."""
    above = (one.parent for one in scope.outwards() if one.kind == FUNCTION)
    owner = next((one for one in above if one and one.kind == CLASS), None)
    return _is_self(node.value) and owner is not None and node.attr in owner.names
