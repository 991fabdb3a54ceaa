"""What the arguments of a call add to the verdict on the called name."""

import ast
import dataclasses
from collections.abc import Callable, Collection

from tf_lso.names.targets import TODAY, Target
from tf_lso.source import lookup
from tf_lso.source.inference import Value
from tf_lso.source.lookup import BREAKS, WORKS, Verdict

# A function that returns what an expression may stand for.
Of = Callable[[ast.expr], Collection[Value]]
# Keyword -> its expression.
Given = dict[str | None, ast.expr]

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


def _second(value: ast.expr, of: Of) -> _Form | None:
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


def _optimizer(call: ast.Call, given: Given, of: Of) -> _Form | None:
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


def _policy(call: ast.Call, given: Given, of: Of) -> _Form | None:
    return _POLICY if "loss_scale" in given or len(call.args) > 1 else None


def _set_global_policy(call: ast.Call, given: Given, of: Of) -> _Form | None:
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
    verdict: Verdict, path: str, call: ast.Call, of: Of, target: Target = TODAY
) -> Verdict | None:
    """Return the verdict on a call, or None if its arguments add nothing.

    Only names that `tf.keras` has have forms that it refuses. `verdict` is that on the
    name, and `of` tells what an expression of the call's scope may stand for.
    """
    if (
        not lookup.is_own(path, target)
        or verdict.error
        or any(isinstance(argument, ast.Starred) for argument in call.args)
    ):
        return None
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    recognise = _FORMS.get(lookup.symbol(path))
    form = recognise and recognise(call, keywords, of)
    return form.verdict(verdict, target.has_keras_2(path)) if form else None
