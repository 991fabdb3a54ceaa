"""What the arguments of a call add to the verdict on the called name.

And what they tell of the program: `keras.mixed_precision.LossScaleOptimizer` is a name of
the old API and of Keras 3's.
"""

import ast
import dataclasses
from collections.abc import Callable

from tf_lso import names
from tf_lso.names.keras3_names import KERAS_3_METHODS, KERAS_3_ONLY
from tf_lso.names.targets import TODAY, Target
from tf_lso.source import lookup
from tf_lso.source.inference import Inference, Value
from tf_lso.source.lookup import BREAKS, WORKS, Verdict
from tf_lso.source.scopes import Scope, Site
from tf_lso.source.syntax import chain_of

_EXPERIMENTAL = "tf_lso.keras.mixed_precision.experimental"
_NEVER = "No version of the stable class takes it: it is an error everywhere."
_DYNAMIC = "TypeError: The second argument is `dynamic`, which is True or False."


@dataclasses.dataclass(frozen=True)
class _Form:
    """One form of a call."""

    today: str  # what happens with Keras 3
    tf_lso: str  # what tf_lso does
    error: str = ""  # the exception that Keras 3 raises at once
    status: str | None = None  # if the form works
    keras_2: str = ""  # what Keras 2 raises, "" where it takes the form

    def verdict(self, verdict: Verdict, keras_2: bool) -> Verdict | None:
        """Return what becomes of a verdict, or None if this adds nothing."""
        if keras_2 and not self.keras_2:
            return None
        return dataclasses.replace(
            verdict,
            status=self.status or BREAKS,
            today=self.keras_2 if keras_2 else self.today,
            tf_lso=self.tf_lso,
            error=self.keras_2.partition(":")[0] if keras_2 else self.error,
        )


_FOUR = _Form(
    "ValueError: Keras 3 takes the fourth argument for `name`.",
    "Takes (optimizer, dynamic, initial_scale, dynamic_growth_steps).",
    "ValueError",
)
_OPTIMIZER = _Form(
    "TypeError: Keras 3's class calls its first argument `inner_optimizer`.",
    "Takes the first argument under either name.",
    "TypeError",
    keras_2="TypeError: The class calls its first argument `inner_optimizer`.",
)
_LOSS_SCALE = _Form(
    f"ValueError: Keras 3's class takes no `loss_scale`. {_NEVER}",
    f"{_EXPERIMENTAL}.LossScaleOptimizer takes a loss scale; the stable class takes "
    "dynamic=… and initial_scale=….",
    "ValueError",
    keras_2=f"TypeError: The class takes no `loss_scale`. {_NEVER}",
)
_FIXED = _Form(
    "ValueError: Keras 3's class takes no `dynamic=False`.",
    "Takes it: a fixed scale of `initial_scale`.",
    "ValueError",
)
_MAYBE_FIXED = _Form(
    "ValueError where `dynamic` is False: Keras 3's class takes no fixed scale.",
    "Takes it, True or False.",
)
_WORD = _Form(
    f"Keras 3 takes {{}} for the initial scale, and fails when it is built. {_NEVER}",
    "Refuses it, too. Write LossScaleOptimizer(optimizer): the scale is dynamic "
    f"unless told otherwise. {_EXPERIMENTAL}.LossScaleOptimizer takes 'dynamic'.",
    keras_2=_DYNAMIC,
)
_NUMBER = _Form(
    "Keras 3 takes {} for the initial scale of a scale that moves. TensorFlow 2.4-2.15 "
    "raised TypeError: their second argument is `dynamic`.",
    "Refuses it, too. Write LossScaleOptimizer(optimizer, dynamic=False, "
    "initial_scale={}) for a fixed scale.",
    keras_2=_DYNAMIC,
)
_OBJECT = _Form(
    f"Keras 3 takes the loss scale for a number, and fails when it is built. {_NEVER}",
    f"Refuses it, too. {_EXPERIMENTAL}.LossScaleOptimizer takes a loss scale.",
    keras_2=_DYNAMIC,
)
_BOOL = _Form(
    "Keras 3 takes {} for the initial scale, and so scales by {:d}.",
    "Takes it for `dynamic`, as TensorFlow 2.4-2.15 did.",
)
_POLICY = _Form(
    "TypeError: Keras 3's dtype policy takes no `loss_scale`; nor did the stable one.",
    f"{_EXPERIMENTAL}.Policy carries a loss scale.",
    "TypeError",
    keras_2="TypeError: The stable dtype policy takes no `loss_scale`.",
)
_UNSCALED = _Form(
    "Works: there is no loss scaling under {!r}.", "Sets the policy.", status=WORKS
)


# What an expression may stand for.
_Of = Callable[[ast.expr], tuple[Value, ...]]
_Given = dict[str | None, ast.expr]  # keyword -> its expression


def _second(value: ast.expr, of: _Of) -> _Form | None:
    """Return the form of a second positional argument of the stable optimizer."""
    if isinstance(value, ast.Constant):
        constant = value.value
        for kind, form in ((bool, _BOOL), (str, _WORD), ((int, float), _NUMBER)):
            if isinstance(constant, kind):
                shown = repr(constant) if kind is not bool else constant
                return dataclasses.replace(
                    form,
                    today=form.today.format(shown, shown),
                    tf_lso=form.tf_lso.format(shown),
                )
    loss_scales = {"LossScale", "FixedLossScale", "DynamicLossScale"}
    if any(lookup.symbol(v.path) in loss_scales and v.instance for v in of(value)):
        return _OBJECT
    return None


def _optimizer(call: ast.Call, given: _Given, of: _Of) -> _Form | None:
    if len(call.args) > 3:
        return _FOUR
    if "optimizer" in given:
        return _OPTIMIZER
    if "loss_scale" in given:
        return _LOSS_SCALE
    dynamic = given.get("dynamic")
    if isinstance(dynamic, ast.Constant):
        return _FIXED if dynamic.value is False else None
    if dynamic is not None:
        return _MAYBE_FIXED
    return _second(call.args[1], of) if len(call.args) > 1 else None


def _policy(call: ast.Call, given: _Given, of: _Of) -> _Form | None:
    return _POLICY if "loss_scale" in given or len(call.args) > 1 else None


def _set_global_policy(call: ast.Call, given: _Given, of: _Of) -> _Form | None:
    first = next(iter((*call.args, *given.values())), None)
    policy = first.value if isinstance(first, ast.Constant) else None
    if isinstance(policy, str) and policy != "mixed_float16":
        return dataclasses.replace(_UNSCALED, today=_UNSCALED.today.format(policy))
    return None


_FORMS = {
    "LossScaleOptimizer": _optimizer,
    "Policy": _policy,
    "set_global_policy": _set_global_policy,
}


def of_call(
    verdict: Verdict | None,
    path: str,
    call: ast.Call,
    scope: Scope,
    values: Inference,
    target: Target = TODAY,
) -> Verdict | None:
    """Return the verdict on a call, or None if its arguments add nothing.

    Only names that `tf.keras` has have forms that it refuses. `verdict` is that on the
    name.
    """
    recognize = _FORMS.get(lookup.symbol(path))
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    if not (verdict and recognize and lookup.is_own(path, target)):
        return None
    if verdict.error or starred:
        return None
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    form = recognize(call, keywords, lambda node: values.values(node, scope))
    return form.verdict(verdict, target.has_keras_2(path)) if form else None


# --- Which API a program was written for.

_KERAS_3 = tuple(
    f"{keras}.{path}."
    for keras in ("keras", "tensorflow.keras")
    for path in KERAS_3_ONLY
)
_CLASS = "LossScaleOptimizer"


def is_for_keras_3(values: Inference) -> bool:
    """Whether a program uses what only Keras 3 has, and nothing of the old API."""
    keras3, calls = False, values.program.calls
    for site in values.program.sites:
        is_call = isinstance(site.node, ast.Call)
        for path in () if is_call else values.paths(site.node, site.scope):
            if _is_gone(path):
                return False
            keras3 |= f"{path}.".startswith(_KERAS_3)
        if isinstance(site.node, ast.Attribute):
            for node in chain_of(site.node):
                if _is_old_method(node, id(node) in calls):
                    return False
                keras3 |= node.attr in KERAS_3_METHODS and id(node) in calls
        elif is_call:
            form = _form(site, values)
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


def _is_old_method(node: ast.Attribute, called: bool) -> bool:
    method = names.METHODS.get(node.attr)
    if method is None or not method.breaks:
        return False
    return method.seen == names.ANYWHERE or (method.seen == names.CALLED and called)


def _form(site: Site, values: Inference) -> bool | None:
    """Return True for a call in Keras 3's form, False in an old one, else None."""
    call = site.node
    paths = values.paths(call.func, site.scope)
    if not any(lookup.symbol(path) == _CLASS for path in paths):
        return None
    keywords = {keyword.arg for keyword in call.keywords}
    if keywords & {"dynamic", "loss_scale", "optimizer"} or len(call.args) > 3:
        return False
    if "name" in keywords:
        return True
    second = getattr(call.args[1], "value", None) if len(call.args) > 1 else None
    if isinstance(second, bool):
        return False
    form = any(
        of_call(lookup.of_path(path), path, call, site.scope, values) for path in paths
    )
    return True if form and isinstance(second, (int, float)) else None
