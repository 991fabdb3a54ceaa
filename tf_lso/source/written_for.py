"""Which API a program was written for: the old one, or Keras 3's.

`keras.mixed_precision.LossScaleOptimizer` is a name of both.
"""

import ast

from tf_lso import names
from tf_lso.names.keras3_names import KERAS_3_METHODS, KERAS_3_ONLY
from tf_lso.source import lookup
from tf_lso.source.calls import form_of
from tf_lso.source.inference import Inference
from tf_lso.source.scopes import Program, Site
from tf_lso.source.syntax import chain_of

_KERAS_3 = tuple(
    f"{keras}.{path}."
    for keras in ("keras", "tensorflow.keras")
    for path in KERAS_3_ONLY
)
_CLASS = "LossScaleOptimizer"


def is_for_keras_3(program: Program, resolver: Inference) -> bool:
    """Whether a program uses what only Keras 3 has, and nothing of the old API."""
    keras3 = False
    for site in program.sites:
        is_call = isinstance(site.node, ast.Call)
        for path in () if is_call else resolver.paths(site.node, site.scope):
            if _is_gone(path):
                return False
            keras3 |= f"{path}.".startswith(_KERAS_3)
        if isinstance(site.node, ast.Attribute):
            for node in chain_of(site.node):
                if _is_old_method(node, program):
                    return False
                keras3 |= node.attr in KERAS_3_METHODS and (id(node) in program.calls)
        elif is_call:
            form = _form(site, resolver)
            if form is False:
                return False
            keras3 |= form is True
    return keras3


def _is_gone(path: str) -> bool:
    """Whether the path leads to an old name or module that today has no more."""
    for part in (path, lookup.parent(path)):
        if part in lookup.MODULES and not lookup.in_tf_keras(part):
            return not lookup.is_there(path)
    return False


def _is_old_method(node: ast.Attribute, program: Program) -> bool:
    method = names.METHODS.get(node.attr)
    if method is None or not method.breaks:
        return False
    called = id(node) in program.calls
    return method.seen == names.ANYWHERE or (method.seen == names.CALLED and called)


def _form(site: Site, resolver: Inference) -> bool | None:
    """Return True for a call in Keras 3's form, False in an old one, else None."""
    found = resolver.of(site.node.func, site.scope)
    if not any(lookup.symbol(ref.path) == _CLASS for ref in found.certain):
        return None
    keywords = {keyword.arg for keyword in site.node.keywords}
    if keywords & {"dynamic", "loss_scale", "optimizer"} or len(site.node.args) > 3:
        return False
    if "name" in keywords:
        return True
    second = site.node.args[1] if len(site.node.args) > 1 else None
    if isinstance(second, ast.Constant) and isinstance(second.value, bool):
        return False
    form = second is not None and any(
        form_of(resolver, ref, site) for ref in found.certain
    )
    number = isinstance(getattr(second, "value", None), (int, float))
    return True if form and number else None
