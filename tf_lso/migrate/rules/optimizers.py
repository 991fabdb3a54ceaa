"""Rule LSO109: find the arguments `lr` and `decay` in calls of Keras optimizer classes."""

import re

import libcst as cst

from tf_lso.frameworks import optimizer_table as table
from tf_lso.migrate.findings import BREAKS, OPTIMIZER, Verdict
from tf_lso.migrate.nodes import keywords, positional
from tf_lso.migrate.program import Program

_CLASS = re.compile(
    r"^(tensorflow\.(compat\.v2\.)?)?(keras\.)?optimizers\.(?!legacy)(\w+\.)?(\w+)$"
)
# Maps each argument of old optimizers to a sentence about what happens today.
_ARGUMENTS = {
    "lr": "ValueError: Keras 3's optimizers have no argument `lr`.",
    "decay": "Keras 3's optimizers warn and ignore `decay`, so the learning rate stays.",
}
_BOTH = "The call has the argument `learning_rate` too."
_SCHEDULE = (
    "Write learning_rate=tf.keras.optimizers.schedules.InverseTimeDecay({rate}, 1, "
    "{decay}), or run the program with --like."
)


def find(program: Program) -> None:
    """Find calls such as `tf.keras.optimizers.Adam(lr=0.1)`."""
    for node in [] if program.target.keras_2 else program.nodes(cst.Call):
        found = _CLASS.match(program.path(node.func))
        if found and found[5] in table.OLD:
            for name in sorted(_ARGUMENTS.keys() & keywords(node).keys()):
                _argument(program, node, name, found[5])


def _argument(program: Program, node: cst.Call, name: str, optimizer: str) -> None:
    arguments = keywords(node)
    text = f"the argument `{name}` of {optimizer}"
    verdict = Verdict(text, BREAKS, _ARGUMENTS[name])
    found = program.report(OPTIMIZER, arguments[name], verdict)
    if name == "decay":
        found.why_not = _schedule(program, node)
    elif "learning_rate" in arguments:
        found.why_not = _BOTH
    else:
        found.fix = "learning_rate"
        found.edits = {arguments[name]: "learning_rate"}


def _schedule(program: Program, node: cst.Call) -> str:
    """Return a sentence that recommends a learning-rate schedule in place of `decay`."""
    arguments = keywords(node)
    named = arguments.get("learning_rate") or arguments.get("lr")
    rate = named.value if named else next(iter(positional(node) or ()), None)
    return _SCHEDULE.format(
        rate=program.code(rate) if rate else "learning_rate",
        decay=program.code(arguments["decay"].value),
    )
