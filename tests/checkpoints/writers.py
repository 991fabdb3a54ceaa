"""The recorded programs whose next steps differ from those of today's optimizers.

These old optimizers computed their steps in another way. Each difference is a row of the table
"Where the next steps differ" in compat_docs/reference/files.md. `test_restore.py` compares both
tables.
"""

import re
from typing import NamedTuple

from tests import families


class Difference(NamedTuple):
    """A row of the table.

    Attributes:
      row: the name of the row on the page.
      case: a regular expression that matches "version/case" for the cases that differ.
      targets: the Kerases whose optimizers differ, keys of `families.KERASES`.
      weights: the largest difference from the recorded weights after five more steps.
      iterations: how much larger `iterations` is than in the record.
    """

    row: str
    case: str
    targets: tuple
    weights: float
    iterations: int = 0


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
    """Return a list of the differences for a case that is restored into a Keras."""
    return [
        difference
        for difference in DIFFERENCES
        if target in difference.targets
        and re.search(difference.case, f"{version}/{case}")
    ]
