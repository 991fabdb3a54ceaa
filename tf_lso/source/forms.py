"""What the arguments of a call add to the verdict on the called name.

And what they tell of the program: `keras.mixed_precision.LossScaleOptimizer` is a name of
the old API and of Keras 3's.
"""

import ast
import dataclasses
import re
from collections.abc import Callable
from typing import Any

from tf_lso.names.keras3_names import KERAS_3_METHODS, KERAS_3_ONLY
from tf_lso.names.targets import TODAY, Target
from tf_lso.source import lookup, rules
from tf_lso.source.diagnostics import FAILURES, Use
from tf_lso.source.inference import Inference
from tf_lso.source.lookup import BREAKS, WORKS, Verdict
from tf_lso.source.scopes import Scope, Site
from tf_lso.source.syntax import chain_of, literal

_EXPERIMENTAL = "tf_lso.keras.mixed_precision.experimental"
_NEVER = "No version of the stable class takes it: it is an error everywhere."
_DYNAMIC = "TypeError: The second argument is `dynamic`, which is True or False."


@dataclasses.dataclass(frozen=True)
class _Form:
    """One form of a call. `{0}` and `{1}` are the constant that is given."""

    today: str  # what happens with Keras 3; an exception that is raised at once, first
    tf_lso: str  # what tf_lso does
    keras_2: str = ""  # what Keras 2 raises, "" where it takes the form
    status: str = BREAKS
    given: Any = None

    def verdict(self, verdict: Verdict, keras_2: bool) -> Verdict | None:
        """Return what becomes of a verdict, or None if this adds nothing."""
        today = self.keras_2 if keras_2 else self.today
        today = today.format(repr(self.given), self.given)
        does = self.tf_lso.format(repr(self.given))
        error = re.match(r"(\w+Error): ", today)
        found = verdict.but(
            self.status, today, tf_lso=does, error=error[1] if error else ""
        )
        return found if today else None


_FOUR = _Form(
    "ValueError: Keras 3 takes the fourth argument for `name`.",
    "Takes (optimizer, dynamic, initial_scale, dynamic_growth_steps).",
)
_OPTIMIZER = _Form(
    "TypeError: Keras 3's class calls its first argument `inner_optimizer`.",
    "Takes the first argument under either name.",
    "TypeError: The class calls its first argument `inner_optimizer`.",
)
_LOSS_SCALE = _Form(
    f"ValueError: Keras 3's class takes no `loss_scale`. {_NEVER}",
    f"{_EXPERIMENTAL}.LossScaleOptimizer takes a loss scale; the stable class takes "
    "dynamic=… and initial_scale=….",
    f"TypeError: The class takes no `loss_scale`. {_NEVER}",
)
_FIXED = _Form(
    "ValueError: Keras 3's class takes no `dynamic=False`.",
    "Takes it: a fixed scale of `initial_scale`.",
)
_MAYBE_FIXED = _Form(
    "ValueError where `dynamic` is False: Keras 3's class takes no fixed scale.",
    "Takes it, True or False.",
)
_WORD = _Form(
    f"Keras 3 takes {{0}} for the initial scale, and fails when it is built. {_NEVER}",
    "Refuses it, too. Write LossScaleOptimizer(optimizer): the scale is dynamic "
    f"unless told otherwise. {_EXPERIMENTAL}.LossScaleOptimizer takes 'dynamic'.",
    _DYNAMIC,
)
_NUMBER = _Form(
    "Keras 3 takes {0} for the initial scale of a scale that moves. TensorFlow 2.4-2.15 "
    "raised TypeError: their second argument is `dynamic`.",
    "Refuses it, too. Write LossScaleOptimizer(optimizer, dynamic=False, "
    "initial_scale={0}) for a fixed scale.",
    _DYNAMIC,
)
_OBJECT = _Form(
    f"Keras 3 takes the loss scale for a number, and fails when it is built. {_NEVER}",
    f"Refuses it, too. {_EXPERIMENTAL}.LossScaleOptimizer takes a loss scale.",
    _DYNAMIC,
)
_BOOL = _Form(
    "Keras 3 takes {0} for the initial scale, and so scales by {1:d}.",
    "Takes it for `dynamic`, as TensorFlow 2.4-2.15 did.",
)
_POLICY = _Form(
    "TypeError: Keras 3's dtype policy takes no `loss_scale`; nor did the stable one.",
    f"{_EXPERIMENTAL}.Policy carries a loss scale.",
    "TypeError: The stable dtype policy takes no `loss_scale`.",
)
_UNSCALED = _Form(
    "Works: there is no loss scaling under {0}.", "Sets the policy.", status=WORKS
)
_NAMES = ("LossScaleOptimizer", "Policy", "set_global_policy")
_LOSS_SCALES = ("LossScale", "FixedLossScale", "DynamicLossScale")
_Asks = Callable[[ast.expr], bool]


def _form(name: str, call: ast.Call, is_scale: _Asks) -> _Form | None:
    """Return the form of a call of one of the names, or None."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if name == "Policy":
        return _POLICY if "loss_scale" in given or len(call.args) > 1 else None
    if name == "set_global_policy":
        policies = map(literal, (*call.args, *given.values()))
        policy = next(policies, None)
        other = policy and policy != "mixed_float16"
        return dataclasses.replace(_UNSCALED, given=policy) if other else None
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
    return _second(call.args[1], is_scale) if len(call.args) > 1 else None


def _second(value: ast.expr, is_scale: _Asks) -> _Form | None:
    """Return the form of a second positional argument of the stable optimizer."""
    constant = value.value if isinstance(value, ast.Constant) else None
    for kind, form in ((bool, _BOOL), (str, _WORD), ((int, float), _NUMBER)):
        if isinstance(constant, kind):
            return dataclasses.replace(form, given=constant)
    return _OBJECT if is_scale(value) else None


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
    name = lookup.symbol(path)
    if (
        not verdict
        or verdict.error
        or any(isinstance(a, ast.Starred) for a in call.args)
    ):
        return None
    if name not in _NAMES or not lookup.is_own(path, target):
        return None

    def is_scale(node: ast.expr) -> bool:
        made = (v for v in values.values(node, scope) if v.instance)
        return any(lookup.symbol(v.path) in _LOSS_SCALES for v in made)

    form = _form(name, call, is_scale)
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
    node = site.node
    if isinstance(node, ast.Call):
        own = filter(lookup.is_own, values.paths(node.func, site.scope))
        keywords = {keyword.arg for keyword in node.keywords}
        form = _form(_NAMES[0], node, lambda value: False)
        number = form is not None and type(form.given) in (int, float)
        new = number or (form is None and "name" in keywords)
        return new and any(lookup.symbol(path) == _NAMES[0] for path in own)
    paths = (f"{path}." for path in values.paths(node, site.scope))
    methods = (part for part in chain_of(node) if part.attr in KERAS_3_METHODS)
    calls = values.program.calls
    return any(p.startswith(_KERAS_3) for p in paths) or any(
        id(m) in calls for m in methods
    )
