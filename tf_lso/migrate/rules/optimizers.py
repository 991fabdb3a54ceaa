"""LSO109: old arguments of an optimizer whose class is certain."""

import re
from typing import Any

import libcst as cst

from tf_lso.frameworks import optimizer_table as table
from tf_lso.migrate import guards
from tf_lso.migrate.findings import BREAKS, OPTIMIZER, Verdict
from tf_lso.migrate.nodes import keywords, positional
from tf_lso.migrate.program import Program

_CLASS = re.compile(
    r"^(tensorflow\.(compat\.v2\.)?)?(keras\.)?optimizers\.(legacy\.)?(\w+\.)?(\w+)$"
)
_REFUSED = ("ValueError: Keras 3's optimizers do not take it.", "Leave it out.")
# Argument of old optimizers -> what happens today, and what to do about it.
_ARGUMENTS = {
    "lr": (
        "ValueError: Keras 3's optimizers take no `lr`.",
        "It has `learning_rate`, too.",
    ),
    "decay": (
        "Keras 3's optimizers ignore `decay`, with a warning: the rate stays.",
        "Write learning_rate=tf.keras.optimizers.schedules.InverseTimeDecay({rate}, 1, "
        "{decay}), or run the program with --like.",
    ),
    "jit_compile": _REFUSED,
    "is_legacy_optimizer": _REFUSED,
}
_LEGACY = "tf-lso run --like 2.4 gives it; or write the class without `legacy`."


class Optimizers(cst.BatchableCSTVisitor):
    """Finds calls such as `tf.keras.optimizers.Adam(lr=0.1)`."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def visit_Call(self, node: cst.Call) -> None:
        """Find a call of an optimizer of Keras 3."""
        path = self.program.called_in_keras3(node)
        found = _CLASS.match(path)
        if not found or found[6] not in table.OLD:
            return
        if found[4]:
            today = "ImportError: Keras 3 has no legacy optimizers."
            verdict = Verdict(f"`{path}`", BREAKS, today)
            self.program.report(OPTIMIZER, node, verdict, why_not=_LEGACY)
            return
        for name in sorted(_ARGUMENTS.keys() & keywords(node).keys()):
            self._argument(node, name, found[6])

    def _argument(self, node: cst.Call, name: str, optimizer: str) -> None:
        given, (today, why) = keywords(node), _ARGUMENTS[name]
        verdict = Verdict(f"the argument `{name}` of {optimizer}", BREAKS, today)
        found = self.program.report(OPTIMIZER, given[name], verdict)
        guard = guards.guard(self.program, node)
        found.guarded = bool(guard)
        if guard:
            found.why_not = f"{guard}."
        elif name == "lr" and "learning_rate" not in given:
            found.fix = "learning_rate"
            found.edits = {given[name]: _renamed}
        else:
            rate = given.get("learning_rate") or given.get("lr")
            first = rate.value if rate else next(iter(positional(node) or ()), None)
            code = self.program.code
            found.why_not = why.format(
                rate=code(first) if first else "learning_rate",
                decay=code(given[name].value),
            )


def _renamed(arg: Any) -> cst.Arg:
    """Return `learning_rate=…` of `lr=…`."""
    renamed: cst.Arg = arg.with_changes(keyword=cst.Name("learning_rate"))
    return renamed
