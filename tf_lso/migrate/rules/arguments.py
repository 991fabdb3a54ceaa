"""Rules LSO104, LSO109: find arguments that today's classes refuse or treat differently."""

import libcst as cst

from tf_lso.migrate import consequences, new_names
from tf_lso.migrate.findings import ARGUMENTS, BREAKS, OPTIMIZER, WRONG, Consequence
from tf_lso.migrate.nodes import keywords, literal, positional
from tf_lso.migrate.program import Program

_EXPERIMENTAL = "tf_lso.keras.mixed_precision.experimental"
_TODAY = (
    "Keras 3's class accepts (inner_optimizer, initial_scale, dynamic_growth_steps, name). "
    "It refuses these arguments, or they mean something else."
)
_POLICY_TODAY = "TypeError: Keras 3's dtype policy has no argument `loss_scale`."
# Why `migrate` does not change a call whose arguments no old version accepted.
NUMBER = (
    "Only Keras 3 accepts a number as the second argument. Write dynamic=False, "
    "initial_scale=… for a fixed scale."
)
_STABLE = "The stable class accepts no loss scale. Use"
_SCALE = f"{_STABLE} {_EXPERIMENTAL}.LossScaleOptimizer."
_POLICY = f"{_STABLE} {_EXPERIMENTAL}.Policy."
_RENAMED = {
    "lr": (BREAKS, "ValueError: Keras 3's optimizers have no argument `lr`."),
    "decay": (
        WRONG,
        "Keras 3's optimizers warn and ignore `decay`, so the learning rate stays.",
    ),
}
_BOTH = "The call has the argument `learning_rate` too."
_SCHEDULE = (
    "Write learning_rate=tf.keras.optimizers.schedules.InverseTimeDecay({rate}, 1, "
    "{decay}), or run the program with --like."
)


def find(program: Program) -> None:
    """Find calls such as `LossScaleOptimizer(opt, False, 128)` and `Adam(lr=0.1)`."""
    for node in [] if program.target.keras_2 else program.nodes(cst.Call):
        path = program.path(node.func)
        _old_class(program, node, path)
        if optimizer := consequences.optimizer_class(path):
            for name in sorted(_RENAMED.keys() & keywords(node).keys()):
                _argument(program, node, name, optimizer)


def _old_class(program: Program, node: cst.Call, path: str) -> None:
    known, values = consequences.of_path(path), positional(node)
    is_kept = consequences.in_tf_keras(path) or not consequences.is_there(path)
    if known is None or is_kept or values is None:
        return
    symbol = consequences.symbol(path)
    if symbol == "Policy" and (len(values) > 1 or "loss_scale" in keywords(node)):
        _report(program, node, known, _POLICY_TODAY, _POLICY)
    elif symbol == "LossScaleOptimizer" and _differs(program, node, values):
        _report(program, node, known, _TODAY, _why_not(program, node, values))


def _report(
    program: Program, node: cst.Call, known: Consequence, today: str, why_not: str
) -> None:
    consequence = Consequence(known.name, BREAKS, today, known.replacement)
    found = program.report(ARGUMENTS, node, consequence, why_not)
    if not why_not:
        new_names.fix(program, found, node.func)


def _differs(
    program: Program, node: cst.Call, values: list[cst.BaseExpression]
) -> bool:
    named = keywords(node)
    if "dynamic" in named:
        return program.code(named["dynamic"].value) != "True"
    return len(values) > 1 or bool({"optimizer", "loss_scale"} & named.keys())


def _why_not(program: Program, node: cst.Call, values: list[cst.BaseExpression]) -> str:
    if "loss_scale" in keywords(node):
        return _SCALE
    second = values[1] if len(values) > 1 else None
    if isinstance(second, (cst.Integer, cst.Float)):
        return NUMBER
    made = program.path(second.func) if isinstance(second, cst.Call) else ""
    is_scale = consequences.symbol(made).endswith("LossScale")
    return _SCALE if is_scale or literal(second) else ""


def _argument(program: Program, node: cst.Call, name: str, optimizer: str) -> None:
    arguments = keywords(node)
    text = f"the argument `{name}` of {optimizer}"
    consequence = Consequence(text, *_RENAMED[name])
    found = program.report(OPTIMIZER, arguments[name], consequence)
    if name == "decay":
        found.why_not = _schedule(program, node)
    elif "learning_rate" in arguments:
        found.why_not = _BOTH
    else:
        found.fix = "learning_rate"
        found.edits = {arguments[name]: "learning_rate"}


def _schedule(program: Program, node: cst.Call) -> str:
    arguments = keywords(node)
    named = arguments.get("learning_rate") or arguments.get("lr")
    rate = named.value if named else next(iter(positional(node) or ()), None)
    return _SCHEDULE.format(
        rate=program.code(rate) if rate else "learning_rate",
        decay=program.code(arguments["decay"].value),
    )
