"""Rule LSO104: find arguments of old classes that mean something else in today's classes."""

import libcst as cst

from tf_lso.migrate import moves, verdicts
from tf_lso.migrate.findings import ARGUMENTS, BREAKS, Verdict
from tf_lso.migrate.nodes import keywords, literal, positional
from tf_lso.migrate.program import Program

_EXPERIMENTAL = "tf_lso.keras.mixed_precision.experimental"
_TODAY = (
    "Keras 3's class accepts (inner_optimizer, initial_scale, dynamic_growth_steps, name). "
    "It refuses these arguments, or they mean something else."
)
_POLICY_TODAY = "TypeError: Keras 3's dtype policy has no argument `loss_scale`."
# If no old version accepted the arguments of a call, `migrate` leaves the call unchanged and
# gives one of these reasons.
NUMBER = (
    "Only Keras 3 accepts a number as the second argument. Write dynamic=False, "
    "initial_scale=… for a fixed scale."
)
_STABLE = "The stable class accepts no loss scale. Use"
_SCALE = f"{_STABLE} {_EXPERIMENTAL}.LossScaleOptimizer."
_POLICY = f"{_STABLE} {_EXPERIMENTAL}.Policy."


def find(program: Program) -> None:
    """Find calls such as `LossScaleOptimizer(opt, False, 128)`."""
    for node in [] if program.target.keras_2 else program.nodes(cst.Call):
        path = program.path(node.func)
        known = verdicts.of_path(path)
        is_kept = verdicts.in_tf_keras(path) or not verdicts.is_there(path)
        values = positional(node)
        if known is None or is_kept or values is None:
            continue
        symbol = verdicts.symbol(path)
        if symbol == "Policy" and (len(values) > 1 or "loss_scale" in keywords(node)):
            _report(program, node, known, _POLICY_TODAY, _POLICY)
        elif symbol == "LossScaleOptimizer" and _differs(program, node, values):
            _report(program, node, known, _TODAY, _why_not(program, node, values))


def _report(
    program: Program, node: cst.Call, known: Verdict, today: str, why_not: str
) -> None:
    verdict = Verdict(known.name, BREAKS, today, known.replacement)
    found = program.report(ARGUMENTS, node, verdict, why_not)
    if not why_not:
        moves.fix(program, found, node.func)


def _differs(
    program: Program, node: cst.Call, values: list[cst.BaseExpression]
) -> bool:
    """Return whether Keras 3's class refuses the arguments or gives them another meaning."""
    named = keywords(node)
    if "dynamic" in named:
        return program.code(named["dynamic"].value) != "True"
    return len(values) > 1 or bool({"optimizer", "loss_scale"} & named.keys())


def _why_not(program: Program, node: cst.Call, values: list[cst.BaseExpression]) -> str:
    """Return why no old version accepted these arguments, or "" if an old version did."""
    if "loss_scale" in keywords(node):
        return _SCALE
    second = values[1] if len(values) > 1 else None
    if isinstance(second, (cst.Integer, cst.Float)):
        return NUMBER
    made = program.path(second.func) if isinstance(second, cst.Call) else ""
    is_scale = verdicts.symbol(made).endswith("LossScale")
    return _SCALE if is_scale or literal(second) else ""
