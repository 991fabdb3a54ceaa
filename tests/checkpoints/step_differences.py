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


ALL_KERASES = tuple(families.GENERATIONS)
DIFFERENCES = [
    Difference(
        row="Skipped steps of TensorFlow 2.0 to 2.2",
        case=r"TF2\.1\.4/experimental.*dynamic",
        targets=ALL_KERASES,
        weights=0.1,
        iterations=1,
    ),
    Difference(
        row="Nadam of OptimizerV2",
        case="v2-Nadam",
        targets=("keras3",),
        weights=2e-2,
    ),
    Difference(
        row="The newer Nadam after a skipped step",
        case="new-Nadam-dynamic",
        targets=("keras3",),
        weights=1e-4,
    ),
    Difference(
        row="The newer Nadam of tf_keras",
        case="(new|keras3)-Nadam",
        targets=("keras2",),
        weights=2e-3,
    ),
    Difference(
        row="Clipping before TensorFlow 2.4",
        case=r"TF2\.[13]\.\d/bare-v2-.*clip",
        targets=ALL_KERASES,
        weights=0.3,
    ),
    Difference(
        row="Ftrl with shrinkage, of TensorFlow 2.4",
        case=r"TF2\.4\.4/.*Ftrl_l1l2",
        targets=ALL_KERASES,
        weights=0.3,
    ),
    Difference(
        row="The newer RMSprop of TensorFlow 2.9 and 2.10",
        case=r"TF2\.(9|10)\.\d/.*new-RMSprop_",
        targets=ALL_KERASES,
        weights=float("inf"),
    ),
]


def differences_of(version, case, target):
    """Return a list of the differences for a case that is restored into a Keras."""
    return [
        difference
        for difference in DIFFERENCES
        if target in difference.targets
        and re.search(difference.case, f"{version}/{case}")
    ]
