"""What the arguments of a call add to the verdict on the called name.

And what they tell of the program: `keras.mixed_precision.LossScaleOptimizer` is a name of
the old API and of Keras 3's.
"""

import ast
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tf_lso.names.keras3_names import KERAS_3_METHODS, KERAS_3_ONLY
from tf_lso.source import lookup, rules
from tf_lso.source.diagnostics import FAILURES, Diagnostic
from tf_lso.source.inference import Inference
from tf_lso.source.lookup import BREAKS, WORKS, Verdict
from tf_lso.source.scopes import Scope, Site
from tf_lso.source.syntax import chain_of, literal

REFUSES = "Refuses it, too. "  # before what to write instead
_EXPERIMENTAL = "tf_lso.keras.mixed_precision.experimental"
_NEVER = "No version of the stable class takes it: it is an error everywhere."
_DYNAMIC = "TypeError: The second argument is `dynamic`, which is True or False."


class _Form(NamedTuple):
    """One form of a call. `{0}` and `{1}` are the constant that is given."""

    today: str  # what happens with Keras 3; an exception that is raised at once, first
    tf_lso: str  # what tf_lso does
    keras_2: str = ""  # what Keras 2 raises, "" where it takes the form
    status: str = BREAKS


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
    f"{REFUSES}{_EXPERIMENTAL}.LossScaleOptimizer takes a loss scale; the stable class "
    "takes dynamic=… and initial_scale=….",
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
    f"{REFUSES}Write LossScaleOptimizer(optimizer): the scale is dynamic "
    f"unless told otherwise. {_EXPERIMENTAL}.LossScaleOptimizer takes 'dynamic'.",
    _DYNAMIC,
)
_NUMBER = _Form(
    "Keras 3 takes {0} for the initial scale of a scale that moves. TensorFlow 2.4-2.15 "
    "raised TypeError: their second argument is `dynamic`.",
    f"{REFUSES}Write LossScaleOptimizer(optimizer, dynamic=False, "
    "initial_scale={0}) for a fixed scale.",
    _DYNAMIC,
)
_OBJECT = _Form(
    f"Keras 3 takes the loss scale for a number, and fails when it is built. {_NEVER}",
    f"{REFUSES}{_EXPERIMENTAL}.LossScaleOptimizer takes a loss scale.",
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
_NOTHING = _Form("", "")


def _form(
    name: str, call: ast.Call, is_scale: Callable[[ast.expr], bool]
) -> tuple[_Form, Any]:
    """Return the form of a call of one of the names, and the constant that is given."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    form, value, dynamic = _NOTHING, None, given.get("dynamic")
    if name == "Policy":
        form = _POLICY if "loss_scale" in given or len(call.args) > 1 else form
    elif name == "set_global_policy":
        value = next(map(literal, (*call.args, *given.values())), None)
        form = _UNSCALED if value and value != "mixed_float16" else form
    elif len(call.args) > 3:
        form = _FOUR
    elif "optimizer" in given:
        form = _OPTIMIZER
    elif "loss_scale" in given:
        form = _LOSS_SCALE
    elif isinstance(dynamic, ast.Constant):
        form = _FIXED if dynamic.value is False else form
    elif dynamic is not None:
        form = _MAYBE_FIXED
    elif len(call.args) > 1:
        return _second(call.args[1], is_scale)
    return form, value


def _second(given: ast.expr, is_scale: Callable[[ast.expr], bool]) -> tuple[_Form, Any]:
    """Return the form of a second positional argument of the stable optimizer."""
    value = given.value if isinstance(given, ast.Constant) else None
    for kind, form in ((bool, _BOOL), (str, _WORD), ((int, float), _NUMBER)):
        if isinstance(value, kind):
            return form, value
    return (_OBJECT if is_scale(given) else _NOTHING), None


def of_call(
    verdict: Verdict, path: str, call: ast.Call, scope: Scope, values: Inference
) -> Verdict | None:
    """Return the verdict on a call, or None if its arguments add nothing.

    Only names that `tf.keras` has have forms that it refuses. `verdict` is that on the
    name.
    """
    name, target = lookup.symbol(path), values.target
    if verdict.error or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if name not in _NAMES or not lookup.is_own(path, target):
        return None

    def is_scale(node: ast.expr) -> bool:
        made = (v for v in values.values(node, scope) if v.instance)
        return any(lookup.symbol(v.path) in _LOSS_SCALES for v in made)

    form, given = _form(name, call, is_scale)
    said = form.keras_2 if target.has_keras_2(path) else form.today
    today, does = (text.format(repr(given), given) for text in (said, form.tf_lso))
    found = re.match(r"(\w+Error): ", today)
    error = found[1] if found else ""
    return verdict.but(form.status, today, tf_lso=does, error=error) if today else None


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
        paths = filter(lookup.is_own, values.paths(node.func, site.scope))
        if not any(lookup.symbol(path) == _NAMES[0] for path in paths):
            return False
        form, _ = _form(_NAMES[0], node, lambda value: False)
        named = any(keyword.arg == "name" for keyword in node.keywords)
        return form is _NUMBER or (form is _NOTHING and named)
    methods = (part for part in chain_of(node) if part.attr in KERAS_3_METHODS)
    return any(
        f"{path}.".startswith(_KERAS_3) for path in values.paths(node, site.scope)
    ) or any(id(method) in values.program.calls for method in methods)
