"""What the arguments of a call add to the verdict on the called name.

And what they tell of the program: `keras.mixed_precision.LossScaleOptimizer` is a name of
the old API and of Keras 3's.
"""

import ast
import dataclasses
from collections.abc import Callable
from typing import Any

from tf_lso.names.keras3_names import KERAS_3_METHODS, KERAS_3_ONLY
from tf_lso.names.targets import TODAY, Target
from tf_lso.source import lookup, rules
from tf_lso.source.diagnostics import FAILURES, Use
from tf_lso.source.inference import Inference, Value
from tf_lso.source.lookup import BREAKS, WORKS, Verdict
from tf_lso.source.scopes import Scope, Site
from tf_lso.source.syntax import chain_of

_EXPERIMENTAL = "tf_lso.keras.mixed_precision.experimental"
_NEVER = "No version of the stable class takes it: it is an error everywhere."
_DYNAMIC = "TypeError: The second argument is `dynamic`, which is True or False."


@dataclasses.dataclass(frozen=True)
class _Form:
    """One form of a call. `{0}` and `{1}` are the constant that is given."""

    today: str  # what happens with Keras 3
    tf_lso: str  # what tf_lso does
    error: str = ""  # the exception that Keras 3 raises at once
    keras_2: str = ""  # what Keras 2 raises, "" where it takes the form
    status: str = BREAKS
    given: Any = None

    def verdict(self, verdict: Verdict, keras_2: bool) -> Verdict | None:
        """Return what becomes of a verdict, or None if this adds nothing."""
        if keras_2 and not self.keras_2:
            return None
        today, shown = self.keras_2 if keras_2 else self.today, repr(self.given)
        return verdict.but(
            self.status,
            today.format(shown, self.given),
            tf_lso=self.tf_lso.format(shown),
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
    f"Keras 3 takes {{0}} for the initial scale, and fails when it is built. {_NEVER}",
    "Refuses it, too. Write LossScaleOptimizer(optimizer): the scale is dynamic "
    f"unless told otherwise. {_EXPERIMENTAL}.LossScaleOptimizer takes 'dynamic'.",
    keras_2=_DYNAMIC,
)
_NUMBER = _Form(
    "Keras 3 takes {0} for the initial scale of a scale that moves. TensorFlow 2.4-2.15 "
    "raised TypeError: their second argument is `dynamic`.",
    "Refuses it, too. Write LossScaleOptimizer(optimizer, dynamic=False, "
    "initial_scale={0}) for a fixed scale.",
    keras_2=_DYNAMIC,
)
_OBJECT = _Form(
    f"Keras 3 takes the loss scale for a number, and fails when it is built. {_NEVER}",
    f"Refuses it, too. {_EXPERIMENTAL}.LossScaleOptimizer takes a loss scale.",
    keras_2=_DYNAMIC,
)
_BOOL = _Form(
    "Keras 3 takes {0} for the initial scale, and so scales by {1:d}.",
    "Takes it for `dynamic`, as TensorFlow 2.4-2.15 did.",
)
_POLICY = _Form(
    "TypeError: Keras 3's dtype policy takes no `loss_scale`; nor did the stable one.",
    f"{_EXPERIMENTAL}.Policy carries a loss scale.",
    "TypeError",
    keras_2="TypeError: The stable dtype policy takes no `loss_scale`.",
)
_UNSCALED = _Form(
    "Works: there is no loss scaling under {0}.", "Sets the policy.", status=WORKS
)


_LOSS_SCALES = {"LossScale", "FixedLossScale", "DynamicLossScale"}

# What an expression may stand for.
_Of = Callable[[ast.expr], tuple[Value, ...]]
_Given = dict[str | None, ast.expr]  # keyword -> its expression


def _second(value: ast.expr, of: _Of) -> _Form | None:
    """Return the form of a second positional argument of the stable optimizer."""
    constant = value.value if isinstance(value, ast.Constant) else None
    for kind, form in ((bool, _BOOL), (str, _WORD), ((int, float), _NUMBER)):
        if isinstance(constant, kind):
            return dataclasses.replace(form, given=constant)
    scales = any(
        v.instance and lookup.symbol(v.path) in _LOSS_SCALES for v in of(value)
    )
    return _OBJECT if scales else None


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
        return dataclasses.replace(_UNSCALED, given=policy)
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
_OLD = (rules.GONE, rules.METHOD, rules.SILENT, rules.ARGUMENTS)


def is_for_keras_3(values: Inference, found: list[Use]) -> bool:
    """Whether a program uses what only Keras 3 has, and nothing of the old API."""
    new = {site.place for site in values.program.sites if _is_new(site, values)}
    return bool(new) and not any(
        use.rule in _OLD and use.verdict.status in FAILURES and use.place not in new
        for use in found
    )


def _is_new(site: Site, values: Inference) -> bool:
    """Whether only Keras 3 has what is used here."""
    node, calls = site.node, values.program.calls
    if isinstance(node, ast.Call):
        paths = values.paths(node.func, site.scope)
        own = (path for path in paths if lookup.symbol(path) == "LossScaleOptimizer")
        return any(map(lookup.is_own, own)) and _is_new_form(node)
    methods = (part for part in chain_of(node) if part.attr in KERAS_3_METHODS)
    paths = values.paths(node, site.scope)
    return any(f"{path}.".startswith(_KERAS_3) for path in paths) or any(
        id(method) in calls for method in methods
    )


def _is_new_form(call: ast.Call) -> bool:
    keywords = {keyword.arg for keyword in call.keywords}
    if keywords & {"dynamic", "loss_scale", "optimizer"} or len(call.args) > 3:
        return False
    second = getattr(call.args[1], "value", None) if len(call.args) > 1 else None
    return "name" in keywords or type(second) in (int, float)
