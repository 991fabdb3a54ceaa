"""Where training with `fit`'s step is otherwise than a recorded version's, and why."""

from tests.golden.comparing import as_in
from tests.golden.differences import Difference

# How the row of compat_docs/reference/differences.md begins.
SKIPPED = "Skipped steps in 2.0 to 2.2"

DIFFERENCES = [
    Difference(
        "keras_training",
        {"kind": "dynamic"},
        "they count, as since 2.3",
        as_in("2.3.4", "keras_training"),
        versions=("2.1.4",),
        row=SKIPPED,
    ),
]
