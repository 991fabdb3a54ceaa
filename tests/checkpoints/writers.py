"""Where the program that wrote a file computed otherwise than today's optimizers.

Each row is one of the table «Where the next steps differ» of compat_docs/reference/files.md,
by its name there; `test_restore.py` holds both against each other.
"""

import re
from typing import NamedTuple

from tests import families


class Difference(NamedTuple):
    """One row."""

    row: str  # its name in the table
    case: str  # what "version/case" matches, a regular expression
    targets: tuple  # the families of optimizers that it holds for
    weights: float  # how far they are from the writer's own five steps later, at most
    iterations: int = 0  # by how much `iterations` is ahead of the writer's


ALL, ANY = tuple(families.GENERATIONS), float("inf")
SKIPPED = r"TF2\.1\.4/experimental.*dynamic"
CLIPPED = r"TF2\.[13]\.\d/bare-v2-.*clip"
FTRL, RMSPROP = r"TF2\.4\.4/.*Ftrl_l1l2", r"TF2\.(9|10)\.\d/.*new-RMSprop_"
ROWS = [
    ("Skipped steps of TensorFlow 2.0 to 2.2", SKIPPED, ALL, 0.1, 1),
    ("Nadam of OptimizerV2", "v2-Nadam", ("keras3",), 2e-2),
    ("The newer Nadam after a skipped step", "new-Nadam-dynamic", ("keras3",), 1e-4),
    ("The newer Nadam of tf_keras", "(new|keras3)-Nadam", ("keras2",), 2e-3),
    ("Clipping before TensorFlow 2.4", CLIPPED, ALL, 0.3),
    ("Ftrl with shrinkage, of TensorFlow 2.4", FTRL, ALL, 0.3),
    ("The newer RMSprop of TensorFlow 2.9 and 2.10", RMSPROP, ALL, ANY),
]
DIFFERENCES = [Difference(*row) for row in ROWS]


def of(version, case, target):
    """Return the rows for one case, a list."""
    return [
        difference
        for difference in DIFFERENCES
        if target in difference.targets
        and re.search(difference.case, f"{version}/{case}")
    ]
