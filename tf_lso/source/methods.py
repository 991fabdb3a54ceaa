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
_OTHERS = {
    "torch",
    "apex",
    "deepspeed",
    "fairseq",
    "pytorch_lightning",
    "lightning",
    "jax",
    "flax",
    "optax",
    "mindspore",
    "mxnet",
    "oneflow",
    "paddle",
    "chainer",
}
_OPTIMIZER_NAMES = {"optimizer", "opt"}
# A use on an object with one of these names, if nothing is known of it.
_OF_OPTIMIZERS = ("loss_scale", "_optimizer")


def of_name(name: str, called: bool, target: Target) -> Verdict:
    """Return the verdict on a method or property of that name in `names.METHODS`."""
    method = names.METHODS[name]
    full = f"LossScaleOptimizer.{name}"
    if target.keras_2:
        return Verdict(full, *_on_keras_2(method, called))
    if not method.breaks:
        today = "Works: Keras 3's LossScaleOptimizer has it, too."
        return Verdict(full, WORKS, today, method.does, current=method.current)
    error = method.breaks.partition(":")[0]
    return Verdict(full, BREAKS, method.breaks, method.does, error, method.current)


def _on_keras_2(method: names.Method, called: bool) -> tuple[str, str, str, str]:
    """Return the status, what happens, what tf_lso does, and the exception."""
    if called and not method.callable:
        today = "TypeError: The stable class has it as a tensor."
        return BREAKS, today, method.does, "TypeError"
    if method.lacking:
        today = f"AttributeError where the inner optimizer is one of {method.lacking}."
        return UNSURE, f"{today} Otherwise it works.", method.does, ""
    return WORKS, "Works as it did.", method.does, ""


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
    seen = names.METHODS[name].seen
    called = id(node) in program.calls
    instances = {v for v in values.values(node.value, site.scope) if v.instance}
    ours = {v for v in instances if v.path.startswith("tf_lso.")}
    tf_keras = {v for v in instances if lookup.in_tf_keras(v.path)}
    known = {v for v in instances if optimizer_of(v)} - tf_keras - ours
    verdict = of_name(name, called, values.target)
    overridden = _is_own(node, site.scope)
    others = instances - known - tf_keras  # policies and loss scales
    if overridden or (not known and (ours or others)):
        return None
    if known and not values.copy_only:
        return None if seen == names.KNOWN_CALLED and not called else verdict
    if tf_keras or values.copy_only:
        library = "tf_keras" if tf_keras else "TensorFlow's own copy of Keras"
        today = f"Works: {library} still has it."
        verdict = Verdict(verdict.name, WORKS, today, verdict.tf_lso)
        return verdict if seen in (names.ANYWHERE, names.CALLED) else None
    if name in _OF_CLASSES and _is_self(node.value):
        return None  # of an optimizer class of the program's own
    if program.packages & _OTHERS and not program.packages & _TENSORFLOW:
        return None
    if not names.METHODS[name].breaks and name in program.stored:
        return None  # probably the program's own object; if not, it works
    if seen == names.ANYWHERE or (seen == names.CALLED and called):
        return _of_stranger(verdict, name, seen, program, legacy)
    if name in _OF_OPTIMIZERS and last_name(node.value) in _OPTIMIZER_NAMES:
        if program.packages & _TENSORFLOW and name not in program.stored:
            return _unsure(verdict, "What this object is cannot be seen.")
    return None


def _of_stranger(
    verdict: Verdict, name: str, seen: str, program: Program, legacy: bool
) -> Verdict:
    """Return the verdict for an object of which nothing is known."""
    if not program.packages & _TENSORFLOW and seen == names.CALLED:
        return _unsure(verdict, "No TensorFlow is imported here.")
    if seen == names.CALLED and (name in program.stored or _is_defined(name, program)):
        return _unsure(verdict, f"This file has a {name} of its own.")
    if program.packages & {"tf_lso", "tf_keras"} and not legacy:
        return _unsure(verdict, "An optimizer of tf_lso or tf_keras has it.")
    return verdict


def _is_defined(name: str, program: Program) -> bool:
    return any(scope.kind == CLASS and name in scope.names for scope in program.scopes)


# Methods that optimizer classes of a program's own inherit, too.
_OF_CLASSES = ("_decayed_lr",)


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
