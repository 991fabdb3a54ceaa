"""Old names in lines of a notebook that only IPython understands."""

import re
from collections.abc import Iterable

from tf_lso.migrate import verdicts
from tf_lso.migrate.findings import UNSEEN, UNSURE, Finding, Verdict

_CHAIN = re.compile(r"(?<![\w.])(?:tf|tensorflow|keras)(?:\.\w+)+")
_TODAY = "What this stands for is known only when it runs."
_WHY = "It stands in a line that only IPython understands; write {} by hand."


def find(lines: Iterable[tuple[int, int, str]]) -> list[Finding]:
    """Return the old names in some lines, each with its cell and its number.

    Example:
    >>> line = "%time p = tf.keras.mixed_precision.experimental.Policy('float32')"
    >>> [(one.line, one.column, one.verdict.name) for one in find([(1, 2, line)])]
    [(2, 11, 'tf.keras.mixed_precision.experimental.Policy')]
    """
    found = []
    for cell, number, line in lines:
        for chain in _CHAIN.finditer(line):
            name, new = _old(chain[0])
            if name:
                verdict = Verdict(name, UNSURE, _TODAY)
                one = Finding(UNSEEN, verdict, number, chain.start() + 1)
                one.why_not, one.cell, one.code = _WHY.format(new), cell, line.strip()
                found.append(one)
    return found


def _old(chain: str) -> tuple[str, str]:
    """Return the longest part of a chain that is an old name, and its new name."""
    first, *steps = chain.split(".")
    start = "tensorflow.keras" if first == "keras" else "tensorflow"
    for end in range(len(steps), 0, -1):
        path = ".".join([start, *steps[:end]])
        verdict = verdicts.of_path(path) if verdicts.is_old(path) else None
        if verdict and verdict.replacement:
            return ".".join([first, *steps[:end]]), verdict.replacement
    return "", ""
