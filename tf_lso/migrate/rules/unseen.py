"""LSO108: chains of attributes that end like an old name, but begin with an unknown name."""

import libcst as cst

from tf_lso.migrate import verdicts
from tf_lso.migrate.findings import UNSEEN, UNSURE, Verdict
from tf_lso.migrate.nodes import attributes, root
from tf_lso.migrate.program import Program
from tf_lso.migrate.rules.methods import FRAMEWORKS, OTHERS

_TODAY = "Only a run can show what this refers to."
# The packages whose names the other rules know, or which have nothing of Keras.
_KNOWN = FRAMEWORKS | OTHERS
# The modules whose old names are distinctive after `experimental`.
_EXPERIMENTAL = (
    "tensorflow.keras.mixed_precision.experimental",
    "tensorflow.mixed_precision.experimental",
    "tensorflow.train.experimental",
)
_SHADOWED = (
    "The name at its beginning is bound to something else too, or cannot be seen. "
    "Write {} by hand."
)


def find(program: Program) -> None:
    """Find chains of attributes such as `self.tf.keras.mixed_precision.Policy`.

    The first name of a chain may also come from another module of the program, or from
    another package. Then the chain may end like `tf.keras.mixed_precision.Policy`.
    """
    for parts in program.chains():
        for part in parts:
            if new := _meant(program, part):
                verdict = Verdict(program.code(part), UNSURE, _TODAY)
                program.report(UNSEEN, part, verdict, _SHADOWED.format(new))
                break


def _meant(program: Program, node: cst.Attribute) -> str:
    """Return the new name for a chain that ends like an old name, or ""."""
    path = program.path(node)
    if path.partition(".")[0] in _KNOWN:
        return ""  # another rule handles the chain, or no rule needs to
    guesses = _guesses([path]) if path else _guesses(_spellings(program, node))
    if not path and attributes(node)[-2:-1] == ["experimental"]:
        guesses += [f"{module}.{node.attr.value}" for module in _EXPERIMENTAL]
    for guess in (*program.paths(node), *guesses):
        verdict = verdicts.of_path(guess) if verdicts.symbol(guess) else None
        if verdict:
            return verdict.replacement
    return ""


def _spellings(program: Program, node: cst.Attribute) -> list[str]:
    """Return the chain as it is written, and with the imported names of its first name."""
    first, steps = root(node), attributes(node)
    starts = [first.value] if isinstance(first, cst.Name) else []
    starts += [source.lstrip(".") for source in program.sources(first)]
    return [".".join([start, *steps]) for start in starts] or [".".join(steps)]


def _guesses(paths: list[str]) -> list[str]:
    """Return the paths of TensorFlow that end like some paths, by at least three names."""
    steps = [path.split(".") for path in paths]
    ends = [".".join(one[start:]) for one in steps for start in range(len(one) - 2)]
    return [f"tensorflow.{more}{end}" for end in ends for more in ("", "keras.")]
