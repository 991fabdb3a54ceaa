"""Where steps on two replicas are otherwise than a recorded version's, and why."""

import functools

from tests.golden.comparing import as_in
from tests.golden.differences import Difference, gives

_difference = functools.partial(Difference, "distribution")
_as_in = functools.partial(as_in, section="distribution")

SINCE_2_8 = ("2.8.4", "2.9.3", "2.10.1", "2.11.1", "2.15.1", "2.21-tf_keras")

# --- The rows of compat_docs/differences.md, by how they begin.

SKIPPED = "Skipped steps in 2.0 to 2.2"
KEYWORD = "`experimental_aggregate_gradients` in TensorFlow 2.0 and 2.1"
PARTED = "The caller aggregates, and the replicas hold different gradients"
STRATEGY = "A strategy without support in TensorFlow 2.0 to 2.2"
IN_REPLICA = "`LossScale.update` in replica context"
COUNTER = "The attributes of the optimizer of TensorFlow 2.0 to 2.3"
ONE_CLASS = "The name of the class"

DIFFERENCES = [
    _difference(
        {"case": "run", "kind": "dynamic", "aggregate": None},
        "they count, as since 2.3",
        _as_in("2.3.4"),
        versions=("2.1.4",),
        row=SKIPPED,
    ),
    _difference(
        {"case": "OneDeviceStrategy"},
        "they count, as since 2.3",
        _as_in("2.3.4"),
        versions=("2.1.4",),
        row=SKIPPED,
    ),
    _difference(
        {"case": "run", "aggregate": (True, False)},
        "taken, as since 2.2",
        _as_in("2.3.4"),
        versions=("2.1.4",),
        row=KEYWORD,
    ),
    _difference(
        {"case": "run", "kind": "dynamic", "aggregate": False},
        "replicas must never part",
        _as_in("2.4.4", of={"family": "v2"}),
        versions=SINCE_2_8,
        row=PARTED,
    ),
]
