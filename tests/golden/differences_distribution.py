"""Where steps on two replicas are otherwise than a recorded version's, and why."""

import functools

from tests.golden.comparing import as_in
from tests.golden.differences import FIRST_NEW, UNTIL_2_3, Difference, gives, raises

_difference = functools.partial(Difference, "distribution")
_as_in = functools.partial(as_in, section="distribution")

SINCE_2_8 = ("2.8.4", "2.9.3", "2.10.1", "2.11.1", "2.15.1", "2.21-tf_keras")

# --- The rows of compat_docs/reference/differences.md, by how they begin.

SKIPPED = "Skipped steps in 2.0 to 2.2"
KEYWORD = "`experimental_aggregate_gradients` in TensorFlow 2.0 and 2.1"
PARTED = "The caller aggregates, and the replicas hold different gradients"
STRATEGY = "A strategy without support in TensorFlow 2.0 and 2.1"
IN_REPLICA = "`LossScale.update` in replica context"
COUNTER = "The attributes of the optimizer of TensorFlow 2.0 to 2.3"
NEWER = "The newer optimizers in TensorFlow 2.9 to 2.11"

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
        {"case": "run", "family": "new", "aggregate": (True, False)},
        "taken, as since 2.11",
        _as_in("2.11.1"),
        versions=FIRST_NEW,
        row=NEWER,
    ),
    _difference(
        {"case": "run", "kind": "dynamic", "aggregate": False},
        "replicas must never part",
        _as_in("2.4.4", of={"family": "v2"}),
        versions=SINCE_2_8,
        row=PARTED,
    ),
    # --- Single calls.
    _difference(
        {"case": ("CentralStorage_ctor", "CentralStorage_apply")},
        "as since 2.2",
        raises("ValueError"),
        message="CentralStorageStrategy",
        versions=("2.1.4",),
        row=STRATEGY,
    ),
    _difference(
        {"case": "loss_scale_reads"},
        "as since 2.4",
        gives(counter_type="MirroredVariable"),
        versions=UNTIL_2_3,
        row=COUNTER,
    ),
    _difference(
        {"case": "DynamicLossScale.update_in_replica_ctx"},
        "works there too",
        lambda recorded, case: {"ok": True},
        row=IN_REPLICA,
    ),
]
