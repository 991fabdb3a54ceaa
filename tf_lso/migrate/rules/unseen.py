"""Rule LSO108: find attribute chains that end like an old name, but have an unknown root."""

import libcst as cst

from tf_lso.migrate import verdicts
from tf_lso.migrate.findings import UNSEEN, UNSURE, Verdict
from tf_lso.migrate.nodes import attributes, root
from tf_lso.migrate.program import Program
from tf_lso.migrate.rules.methods import FRAMEWORKS, OTHERS
from tf_lso.migrate.rules.names import DISTINCTIVE

_TODAY = "Only a run can show what this refers to."
# This rule ignores chains that begin with these packages. The other rules know the names of
# `FRAMEWORKS`, and the packages in `OTHERS` have nothing to do with Keras.
_KNOWN = FRAMEWORKS | OTHERS
# The modules that `x` may mean in a chain such as `x.experimental.Policy` or
# `x.FixedLossScale`, if the program does not show what `x` is.
_STABLE = "tensorflow.keras.mixed_precision"
_EXPERIMENTAL = (
    f"{_STABLE}.experimental",
    "tensorflow.mixed_precision.experimental",
    "tensorflow.train.experimental",
)
_SHADOWED = (
    "The name at its beginning is bound to something else too, or cannot be seen. "
    "Write {} by hand."
)


def find(program: Program) -> None:
    """Find chains of attributes such as `self.tf.keras.mixed_precision.Policy`.

    The rule cannot know what `self.tf` is. It reports the chain, because the chain ends like an
    old name. The same holds if the first name of a chain is imported from another module of
    the program, or from another package.
    """
    for parts in program.chains():
        for part in parts:
            if new := _meant(program, part):
                verdict = Verdict(program.code(part), UNSURE, _TODAY)
                program.report(UNSEEN, part, verdict, _SHADOWED.format(new))
                break


def _meant(program: Program, node: cst.Attribute) -> str:
    """Return the new name for a chain that probably is an old name, or "" for other chains."""
    path = program.path(node)
    if path.partition(".")[0] in _KNOWN:
        return ""
    first, steps = root(node), attributes(node)
    written = ".".join([first.value, *steps] if isinstance(first, cst.Name) else steps)
    guesses = _guesses(path or written)
    if not path or path.startswith("."):
        if steps[-2:-1] == ["experimental"]:
            guesses += [f"{module}.{steps[-1]}" for module in _EXPERIMENTAL]
        elif steps[-1] in DISTINCTIVE:
            guesses += [f"{module}.{steps[-1]}" for module in (_STABLE, *_EXPERIMENTAL)]
    for guess in (*program.paths(node), *guesses):
        verdict = verdicts.of_path(guess) if verdicts.symbol(guess) else None
        if verdict:
            return verdict.replacement
    return ""


def _guesses(path: str) -> list[str]:
    """Return possible TensorFlow paths that end with the last three or more names of a path.

    For the path `x.keras.mixed_precision.Policy`, one of the guesses is
    `tensorflow.keras.mixed_precision.Policy`.
    """
    steps = path.split(".")
    ends = [".".join(steps[start:]) for start in range(len(steps) - 2)]
    return [f"tensorflow.{more}{end}" for end in ends for more in ("", "keras.")]
