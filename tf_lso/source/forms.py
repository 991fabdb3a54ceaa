"""What the arguments of a call add to the verdict on the called name.

And what they tell of the program: `keras.mixed_precision.LossScaleOptimizer` is a name of
the old API and of Keras 3's.
"""

import ast
import re
from typing import NamedTuple

from tf_lso.names.keras3_names import KERAS_3_METHODS, KERAS_3_ONLY
from tf_lso.source import lookup, rules
from tf_lso.source.diagnostics import FAILURES, Diagnostic
from tf_lso.source.inference import Inference
from tf_lso.source.lookup import BREAKS, WORKS, Verdict
from tf_lso.source.scopes import Scope, Site
from tf_lso.source.syntax import last_name, literal

REFUSES = "Refuses it, too. "  # before what to write instead
_EXPERIMENTAL = "tf_lso.keras.mixed_precision.experimental"
_NEVER = "No version of the stable class takes it: it is an error everywhere."
_LOSS_SCALES = ("LossScale", "FixedLossScale", "DynamicLossScale")
_DYNAMIC = "TypeError: The second argument is `dynamic`, which is True or False."


class _Form(NamedTuple):
    """One form of a call."""

    today: str  # what happens with Keras 3; an exception that is raised at once, first
    tf_lso: str  # what tf_lso does
    keras_2: str = ""  # what Keras 2 raises, "" where it takes the form
    status: str = BREAKS
    in_keras_3: bool = False  # whether calls of Keras 3's class have it, too


def _form(name: str, call: ast.Call, scope: Scope, values: Inference) -> _Form | None:
    """Return the form of a call of one of the names, if it is one of these."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    match name, call.args:
        case "set_global_policy", args:
            policy = next(map(literal, (*args, *given.values())), None)
            if policy and policy != "mixed_float16":
                today = f"Works: there is no loss scaling under {policy!r}."
                return _Form(today, "Sets the policy.", status=WORKS)
        case "Policy", args:
            if len(args) > 1 or "loss_scale" in given:
                return _Form(
                    "TypeError: Keras 3's dtype policy takes no `loss_scale`; nor did "
                    "the stable one.",
                    f"{_EXPERIMENTAL}.Policy carries a loss scale.",
                    "TypeError: The stable dtype policy takes no `loss_scale`.",
                )
        case "LossScaleOptimizer", args if len(args) > 3:
            return _Form(
                "ValueError: Keras 3 takes the fourth argument for `name`.",
                "Takes (optimizer, dynamic, initial_scale, dynamic_growth_steps).",
            )
        case "LossScaleOptimizer", _ if "optimizer" in given:
            return _Form(
                "TypeError: Keras 3's class calls its first argument `inner_optimizer`.",
                "Takes the first argument under either name.",
                "TypeError: The class calls its first argument `inner_optimizer`.",
            )
        case "LossScaleOptimizer", _ if "loss_scale" in given:
            return _Form(
                f"ValueError: Keras 3's class takes no `loss_scale`. {_NEVER}",
                f"{REFUSES}{_EXPERIMENTAL}.LossScaleOptimizer takes a loss scale; the "
                "stable class takes dynamic=… and initial_scale=….",
                f"TypeError: The class takes no `loss_scale`. {_NEVER}",
            )
        case "LossScaleOptimizer", _ if dynamic := given.get("dynamic"):
            if not isinstance(dynamic, ast.Constant):
                today = "ValueError where `dynamic` is False: Keras 3's class takes no "
                return _Form(f"{today}fixed scale.", "Takes it, True or False.")
            if dynamic.value is False:
                today = "ValueError: Keras 3's class takes no `dynamic=False`."
                return _Form(today, "Takes it: a fixed scale of `initial_scale`.")
        case "LossScaleOptimizer", [_, ast.Constant(bool(value)), *_]:
            return _Form(
                f"Keras 3 takes {value} for the initial scale, and so scales by {value:d}.",
                "Takes it for `dynamic`, as TensorFlow 2.4-2.15 did.",
            )
        case "LossScaleOptimizer", [_, ast.Constant(str(value)), *_]:
            return _Form(
                f"Keras 3 takes {value!r} for the initial scale, and fails when it is "
                f"built. {_NEVER}",
                f"{REFUSES}Write LossScaleOptimizer(optimizer): the scale is dynamic "
                f"unless told otherwise. {_EXPERIMENTAL}.LossScaleOptimizer takes "
                "'dynamic'.",
                _DYNAMIC,
            )
        case "LossScaleOptimizer", [_, ast.Constant(int(value) | float(value)), *_]:
            return _Form(
                f"Keras 3 takes {value} for the initial scale of a scale that moves. "
                "TensorFlow 2.4-2.15 raised TypeError: their second argument is "
                "`dynamic`.",
                f"{REFUSES}Write LossScaleOptimizer(optimizer, dynamic=False, "
                f"initial_scale={value}) for a fixed scale.",
                _DYNAMIC,
                in_keras_3=True,
            )
        case "LossScaleOptimizer", [_, value, *_] if _is_scale(value, scope, values):
            return _Form(
                "Keras 3 takes the loss scale for a number, and fails when it is built. "
                f"{_NEVER}",
                f"{REFUSES}{_EXPERIMENTAL}.LossScaleOptimizer takes a loss scale.",
                _DYNAMIC,
            )
    return None


def _is_scale(node: ast.expr, scope: Scope, values: Inference) -> bool:
    made = values.made(node, scope)
    return any(lookup.symbol(value.path) in _LOSS_SCALES for value in made)


def of_call(
    verdict: Verdict, path: str, call: ast.Call, scope: Scope, values: Inference
) -> Verdict | None:
    """Return the verdict on a call, or None if its arguments add nothing.

    Only names that `tf.keras` has have forms that it refuses. `verdict` is that on the
    name.
    """
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    if verdict.error or starred or not lookup.is_own(path, values.target):
        return None
    form = _form(lookup.symbol(path), call, scope, values)
    today = form and (form.keras_2 if values.target.has_keras_2(path) else form.today)
    if not (form and today):
        return None
    error = re.match(r"\w+Error(?=: )", today)
    raised = error.group() if error else ""
    return verdict.but(form.status, today, tf_lso=form.tf_lso, error=raised)


# --- Which API a program was written for.

_KERAS_3 = tuple(
    f"{keras}.{path}."
    for keras in ("keras", "tensorflow.keras")
    for path in KERAS_3_ONLY
)
_OLD = (rules.GONE, rules.METHOD, rules.SILENT, rules.ARGUMENTS)


def is_for_keras_3(values: Inference, found: list[Diagnostic]) -> bool:
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
        if not any(lookup.symbol(path) == "LossScaleOptimizer" for path in own):
            return False
        form = _form("LossScaleOptimizer", node, site.scope, values)
        named = any(keyword.arg == "name" for keyword in node.keywords)
        return form.in_keras_3 if form else named
    if last_name(node) in KERAS_3_METHODS and id(node) in values.program.calls:
        return True
    paths = values.paths(node, site.scope)
    return any(f"{path}.".startswith(_KERAS_3) for path in paths)
