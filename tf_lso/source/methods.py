"""Methods and properties of the old optimizer, on objects whose class is not seen."""

import ast
import dataclasses

from tf_lso import names
from tf_lso.names.targets import Target
from tf_lso.source import lookup
from tf_lso.source.inference import Inference, optimizer_of
from tf_lso.source.lookup import BREAKS, UNSURE, WORKS, Verdict
from tf_lso.source.scopes import CLASS, FUNCTION, Program, Scope, Site
from tf_lso.source.syntax import last_name

_TENSORFLOW = lookup.FRAMEWORKS | {"tf_lso", "tensorflow_addons"}
# A file that imports one of these, but not TensorFlow, has that library's optimizers.
_OTHERS = frozenset(
    "torch apex deepspeed fairseq pytorch_lightning lightning jax flax optax mindspore "
    "mxnet oneflow paddle chainer".split()
)
_OPTIMIZER_NAMES = {"optimizer", "opt"}
# A use on an object with one of these names, if nothing is known of it.
_OF_OPTIMIZERS = ("loss_scale", "_optimizer")
# Methods that optimizer classes of a program's own inherit, too.
_OF_CLASSES = ("_decayed_lr",)


def _of_name(name: str, called: bool, target: Target) -> Verdict:
    """Return the verdict on a method or property of that name in `names.METHODS`."""
    method = names.METHODS[name]
    status, today, error, current = BREAKS, method.breaks, "", method.current
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
    if status == BREAKS:
        error = today.partition(":")[0]
    full = f"LossScaleOptimizer.{name}"
    return Verdict(full, status, today, method.does, error, current)


def _unsure(verdict: Verdict, why: str) -> Verdict:
    if verdict.status == WORKS:
        return verdict
    today = f"{verdict.today} {why}"
    return dataclasses.replace(verdict, status=UNSURE, today=today, error="")


def of_access(
    node: ast.Attribute, site: Site, values: Inference, legacy: bool
) -> Verdict | None:
    """Return the verdict on `….name`, or None if it is no use.

    `legacy` says whether the program has an old optimizer or policy of today's Keras.
    """
    name, program = node.attr, values.program
    method, called = names.METHODS[name], id(node) in program.calls
    anywhere = method.seen == names.ANYWHERE or (method.seen == names.CALLED and called)
    instances = {v for v in values.values(node.value, site.scope) if v.instance}
    tf_keras = {v for v in instances if lookup.in_tf_keras(v.path)}
    ours = {v for v in instances if v.path.startswith("tf_lso.")}
    known = {v for v in instances if optimizer_of(v)} - tf_keras - ours
    if _is_own(node, site.scope) or (not known and instances - tf_keras):
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
    if program.packages & _OTHERS and not program.packages & _TENSORFLOW:
        return None
    if not method.breaks and name in program.stored:
        return None  # probably the program's own object; if not, it works
    if anywhere:
        return _of_stranger(verdict, name, method.seen, program, legacy)
    if name in _OF_OPTIMIZERS and last_name(node.value) in _OPTIMIZER_NAMES:
        if program.packages & _TENSORFLOW and name not in program.stored:
            return _unsure(verdict, "What this object is cannot be seen.")
    return None


def _of_stranger(
    verdict: Verdict, name: str, seen: str, program: Program, legacy: bool
) -> Verdict:
    """Return the verdict for an object of which nothing is known."""
    if seen == names.CALLED:
        if not program.packages & _TENSORFLOW:
            return _unsure(verdict, "No TensorFlow is imported here.")
        classes = (scope for scope in program.scopes if scope.kind == CLASS)
        if name in program.stored or any(name in scope.names for scope in classes):
            return _unsure(verdict, f"This file has a {name} of its own.")
    if program.packages & {"tf_lso", "tf_keras"} and not legacy:
        return _unsure(verdict, "An optimizer of tf_lso or tf_keras has it.")
    return verdict


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_own(node: ast.Attribute, scope: Scope) -> bool:
    """Whether the object is `self`, and its class has the method itself."""
    classes = (
        inner.parent
        for inner in scope.outwards()
        if inner.kind == FUNCTION and inner.parent and inner.parent.kind == CLASS
    )
    owner = next(classes, None)
    return _is_self(node.value) and owner is not None and node.attr in owner.names
