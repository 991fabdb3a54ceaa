"""Rule LSO109: find old methods of bare Keras 3 optimizers, and calls of learning rates."""

import re

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate import consequences
from tf_lso.migrate.findings import BREAKS, OPTIMIZER, WRONG, Consequence
from tf_lso.migrate.nodes import positional
from tf_lso.migrate.program import Program

# Keras 3's optimizers lack these names. Rule LSO105 reports the names of loss scaling.
_GONE = {
    *("get_slot_names", "get_slot", "add_slot", "get_weights", "weights", "add_weight"),
    *("get_updates", "get_gradients", "minimize", "compute_gradients", "lr", "decay"),
    "aggregate_gradients",
}
_RATES = ("lr", "learning_rate")
# Matches names such as `opt`, `self.optimizer` and `disc_opt`.
_OPTIMIZER = re.compile(r"(^|[._])opt(s|im\w*)?$|optimizer\w*$", re.IGNORECASE)
# Matches the calls by which programs ask whether a learning rate is a schedule.
_ASKS = m.Call(m.Name("callable") | m.Name("isinstance"))
_WRAP = "Wrap it by tf_lso.LossScaleOptimizer, or run the program with --like."
_RATE = (
    "TypeError: 'EagerTensor' object is not callable. In Keras 3 this is the rate of the "
    "current step, even if the optimizer has a schedule."
)
_LIST = "TypeError: 'list' object is not callable. In Keras 3 this is a property."
_SCHEDULE = "Call the schedule itself, or run the program with --like."


def find(program: Program) -> None:
    """Find uses such as `tf.keras.optimizers.Adam().get_slot_names()` and `opt.lr(step)`."""
    if program.target.keras_2:
        return
    for node in program.nodes(cst.Attribute):
        name = node.attr.value
        if _is_called_rate(program, node):
            text = f"a call of `{name}` of an optimizer"
            program.report(
                OPTIMIZER, node.attr, Consequence(text, BREAKS, _RATE), _SCHEDULE
            )
        elif name in _GONE and is_bare(program, node.value):
            consequence = Consequence(
                f"`{name}` of a bare optimizer", *_gone(program, node)
            )
            program.report(OPTIMIZER, node.attr, consequence, _WRAP)
        elif _is_called_list(program, node) and is_bare(program, node.value):
            consequence = Consequence(
                "`variables()` of a bare optimizer", BREAKS, _LIST
            )
            program.report(OPTIMIZER, node.attr, consequence, _WRAP)


def _gone(program: Program, node: cst.Attribute) -> tuple[str, str]:
    if program.is_stored(node):
        return WRONG, "Keras 3 accepts the value, and ignores it."
    return BREAKS, f"AttributeError: Keras 3's optimizers have no {node.attr.value}."


def is_bare(program: Program, node: cst.CSTNode) -> bool:
    """Return whether an expression is certainly an optimizer of Keras that nothing wraps."""
    makers = program.makers(node)
    return bool(makers) and all(map(consequences.optimizer_class, makers))


def _is_called_list(program: Program, node: cst.Attribute) -> bool:
    call = program.parent(node)
    is_called = isinstance(call, cst.Call) and call.func is node
    return is_called and node.attr.value == "variables"


def _is_called_rate(program: Program, node: cst.Attribute) -> bool:
    call = program.parent(node)
    if not isinstance(call, cst.Call) or call.func is not node:
        return False
    if node.attr.value not in _RATES or len(positional(call) or ()) != 1:
        return False
    for parent in program.parents(node):
        if isinstance(parent, (cst.If, cst.IfExp)) and m.findall(parent.test, _ASKS):
            return False
    is_named = _OPTIMIZER.search(program.code(node.value)) is not None
    return is_named or is_bare(program, node.value)
