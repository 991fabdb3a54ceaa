"""LSO104: arguments of the old classes that today's classes refuse or take otherwise."""

import dataclasses
from typing import NamedTuple

import libcst as cst

from tf_lso.migrate import moves, verdicts
from tf_lso.migrate.findings import ARGUMENTS, BREAKS, SAME, WORKS, Verdict
from tf_lso.migrate.nodes import keywords, literal, positional
from tf_lso.migrate.program import Program


class _Form(NamedTuple):
    """What happens today with one form of a call, and what tf_lso does."""

    today: str
    tf_lso: str
    refused: bool = False  # whether tf_lso refuses it, too


_EXPERIMENTAL = "tf_lso.keras.mixed_precision.experimental"
_SCALE = (
    f"Refuses it, too. {_EXPERIMENTAL}.LossScaleOptimizer takes a loss scale; the stable "
    "class takes dynamic=… and initial_scale=…."
)
_POLICY, _OPTIMIZER, _LOSS_SCALE = "policy", "optimizer=", "loss_scale="
_FALSE, _DYNAMIC, _BOOL = "dynamic=False", "dynamic=…", "a bool"
_FOURTH, _NUMBER, _OBJECT = "a fourth argument", "a number", "a loss scale"
_FORMS = {
    _POLICY: _Form(
        "TypeError: Keras 3's dtype policy takes no `loss_scale`.",
        f"Refuses it, too. {_EXPERIMENTAL}.Policy carries a loss scale.",
        refused=True,
    ),
    _OPTIMIZER: _Form(
        "TypeError: Keras 3's class calls its first argument `inner_optimizer`.",
        "Takes the first argument under either name.",
    ),
    _LOSS_SCALE: _Form(
        "ValueError: Keras 3's class takes no `loss_scale`.", _SCALE, refused=True
    ),
    _FALSE: _Form(
        "ValueError: Keras 3's class takes no `dynamic=False`.",
        "Takes it: a fixed scale of `initial_scale`.",
    ),
    _DYNAMIC: _Form(
        "ValueError where `dynamic` is False: Keras 3's class takes no fixed scale.",
        "Takes it, True or False.",
    ),
    _FOURTH: _Form(
        "ValueError: Keras 3 takes the fourth argument for `name`.",
        "Takes (optimizer, dynamic, initial_scale, dynamic_growth_steps).",
    ),
    _BOOL: _Form(
        "Keras 3 takes {} for the initial scale, and scales by 1 or 0.",
        "Takes it for `dynamic`, as TensorFlow 2.4-2.15 did.",
    ),
    _NUMBER: _Form(
        "Keras 3 takes {} for the initial scale of a scale that moves. TensorFlow "
        "2.4-2.15 raised TypeError: their second argument is `dynamic`.",
        "Refuses it, too. Write LossScaleOptimizer(optimizer, dynamic=False, "
        "initial_scale={}) for a fixed scale.",
        refused=True,
    ),
    _OBJECT: _Form(
        "Keras 3 takes {} for the initial scale, and fails when it is built.",
        _SCALE,
        refused=True,
    ),
}


class Constructors(cst.BatchableCSTVisitor):
    """Finds calls such as `LossScaleOptimizer(opt, False, 128)`."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def visit_Call(self, node: cst.Call) -> None:
        """Find a call of a class that today's TensorFlow has under its old name."""
        path = self.program.called_in_keras3(node)
        verdict = self.program.verdict(path)
        kept = verdicts.in_copy(path) or verdicts.in_tf_keras(path)
        if verdict is None or kept or not verdicts.is_there(path):
            return
        if form := form_of(self.program, node, verdicts.symbol(path)):
            self._report(node, verdict, form)
        elif verdicts.symbol(path) == "set_global_policy":
            self._policy(node, verdict)

    def _report(self, node: cst.Call, verdict: Verdict, kind: str) -> None:
        form, values = _FORMS[kind], positional(node) or []
        second = self.program.code(values[1]) if len(values) > 1 else ""
        today, does = form.today.format(second), form.tf_lso.format(second)
        verdict = dataclasses.replace(verdict, status=BREAKS, today=today, tf_lso=does)
        found = self.program.report(ARGUMENTS, node, verdict, of_call=True)
        moves.fix(self.program, found, node.func)
        if form.refused:
            found.why_not = does

    def _policy(self, node: cst.Call, verdict: Verdict) -> None:
        """Losses are scaled under mixed_float16 alone."""
        policy = literal(node.args[0].value) if node.args else None
        named = isinstance(node.func, cst.Name)  # then its import is reported
        if policy and policy != "mixed_float16" and not named:
            today = f"Works: there is no loss scaling under {policy!r}."
            verdict = dataclasses.replace(verdict, status=WORKS, today=today)
            found = self.program.report(SAME, node, verdict, of_call=True)
            moves.fix(self.program, found, node.func)


def form_of(program: Program, node: cst.Call, symbol: str) -> str:
    """Return which form of `_FORMS` a call has, or ""."""
    given, values = keywords(node), positional(node)
    if values is None:
        return ""
    if symbol == "Policy":
        return _POLICY if len(values) > 1 or "loss_scale" in given else ""
    if symbol != "LossScaleOptimizer":
        return ""
    for form in (_OPTIMIZER, _LOSS_SCALE):
        if form.removesuffix("=") in given:
            return form
    if "dynamic" in given:
        code = program.code(given["dynamic"].value)
        return {"True": "", "False": _FALSE}.get(code, _DYNAMIC)
    if len(values) > 3:
        return _FOURTH
    return _second(program, values[1]) if len(values) > 1 else ""


def _second(program: Program, value: cst.BaseExpression) -> str:
    """Return the form of a call by its second positional argument."""
    if program.code(value) in ("True", "False"):
        return _BOOL
    if isinstance(value, (cst.Integer, cst.Float)):
        return _NUMBER
    made = program.paths(value.func) if isinstance(value, cst.Call) else ()
    is_scale = any(verdicts.symbol(path).endswith("LossScale") for path in made)
    return _OBJECT if is_scale or literal(value) else ""


def is_of_keras_3(program: Program, node: cst.Call) -> bool:
    """Whether a call of LossScaleOptimizer has the form of Keras 3's class."""
    symbols = {verdicts.symbol(path) for path in program.paths(node.func)}
    if symbols != {"LossScaleOptimizer"}:
        return False
    form = form_of(program, node, "LossScaleOptimizer")
    return form == _NUMBER or (not form and "name" in keywords(node))
