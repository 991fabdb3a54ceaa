"""LSO108: chains of attributes that end like an old name, but begin with an unknown name."""

import libcst as cst

from tf_lso.migrate import verdicts
from tf_lso.migrate.findings import UNSEEN, UNSURE, Verdict
from tf_lso.migrate.nodes import attributes, root
from tf_lso.migrate.program import Program

_TODAY = "Only a run can show what this refers to."
_SHADOWED = (
    "The name at its beginning is bound to something else too, or cannot be seen. "
    "Write {} by hand."
)


def find(program: Program) -> None:
    """Find chains of attributes such as `self.tf.keras.mixed_precision.Policy`.

    The first name of a chain may also come from another module of the program.
    """
    for parts in program.chains():
        for part in parts:
            if new := _meant(program, part):
                verdict = Verdict(program.code(part), UNSURE, _TODAY)
                program.report(UNSEEN, part, verdict, _SHADOWED.format(new))
                break


def _meant(program: Program, node: cst.Attribute) -> str:
    """Return the new name for a chain that ends like an old name, or ""."""
    if program.path(node) or program.path(root(node)):
        return ""  # the path is known, so another rule handles the chain
    first, steps = root(node), attributes(node)
    if isinstance(first, cst.Name):
        steps = [first.value, *steps]
    ends = [".".join(steps[start:]) for start in range(len(steps) - 2)]
    guesses = [f"tensorflow.{more}{end}" for end in ends for more in ("", "keras.")]
    for path in (*program.paths(node), *guesses):
        verdict = verdicts.of_path(path) if verdicts.symbol(path) else None
        if verdict:
            return verdict.replacement
    return ""
