"""Where the program that wrote a file computed otherwise than today's optimizers.

Each row is one of the table «Where the next steps differ» of compat_docs/reference/files.md,
by its name there; `test_restore.py` holds both against each other.
"""

import re
from typing import NamedTuple

from tests import families


class Difference(NamedTuple):
    """One row.

    Attributes:
      row: its name in the table.
      case: what "version/case" matches, a regular expression.
      targets: the families of optimizers that it holds for.
      weights: how far weights are from the writer's own five steps later, at most.
      iterations: by how much `iterations` is ahead of the writer's.
    """

    row: str
    case: str
    targets: tuple
    weights: float = 0.0
    iterations: int = 0


_ALL = tuple(families.GENERATIONS)

DIFFERENCES = [
    Difference(
        "Skipped steps of TensorFlow 2.0 to 2.2",
        r"TF2\.1\.4/experimental.*dynamic",
        _ALL,
        weights=0.1,
        iterations=1,
    ),
    Difference("Nadam of OptimizerV2", r"v2-Nadam", ("keras3",), weights=2e-2),
    Difference(
        "The newer Nadam after a skipped step",
        r"new-Nadam-dynamic",
        ("keras3",),
        weights=1e-4,
    ),
    Difference(
        "The newer Nadam of tf_keras",
        r"(new|keras3)-Nadam",
        ("keras2",),
        weights=2e-3,
    ),
    Difference(
        "Clipping before TensorFlow 2.4",
        r"TF2\.[13]\.\d/bare-v2-.*clip",
        _ALL,
        weights=0.3,
    ),
    Difference(
        "Ftrl with shrinkage, of TensorFlow 2.4", r"TF2\.4\.4/.*Ftrl_l1l2", _ALL, 0.3
    ),
    Difference(
        "The newer RMSprop of TensorFlow 2.9 and 2.10",
        r"TF2\.(9|10)\.\d/.*new-RMSprop_",
        _ALL,
        weights=float("inf"),
    ),
]


def of(version, case, target):
    """Return the rows for one case, a list."""
    return [
        difference
        for difference in DIFFERENCES
        if target in difference.targets
        and re.search(difference.case, f"{version}/{case}")
    ]
