"""Where checkpoints and single programs are otherwise than recorded, and why."""

import functools

from tests.golden.comparing import as_in
from tests.golden.differences import Difference, raises

_difference = functools.partial(Difference, "extras")
_as_in = functools.partial(as_in, section="extras")

# --- The rows of compat_docs/reference/differences.md, by how they begin.

SKIPPED = "Skipped steps in 2.0 to 2.2"
KEYWORD = "An inner optimizer of tf_keras whose own `apply_gradients`"
OF_KERAS3 = "An inner optimizer of Keras 3 whose own `apply_gradients`"
FIRST = (
    "A checkpoint of a plain optimizer in a wrapped one, or the reverse, in TensorFlow"
)

_OVERRIDDEN = "inner_whose_apply_gradients_lacks_aggregate_kwarg"
_PLAIN_TO_WRAPPED = "restore_plain_checkpoint_into_lso"
_WRAPPED_TO_PLAIN = "restore_lso_checkpoint_into_plain"


DIFFERENCES = [
    _difference(
        {"case": _OVERRIDDEN},
        "says so at construction",
        raises("TypeError"),
        message="apply_gradients",
        families=("legacy",),
        versions=("2.1.4",),
        row=KEYWORD,
    ),
    _difference(
        {"case": _OVERRIDDEN},
        "Keras 3 passes no such keyword",
        lambda recorded, case: {
            "ok": {
                "counter": 1,
                "iterations": 1,
                "loss_scale": 4.0,
                "vars": [0.8999999761581421],
            }
        },
        families=("keras3",),
        row=OF_KERAS3,
    ),
    _difference(
        {"case": "deferred_restore_before_slots_exist"},
        "they count, as since 2.3",
        _as_in("2.3.4"),
        versions=("2.1.4",),
        row=SKIPPED,
    ),
    _difference(
        {"case": (_PLAIN_TO_WRAPPED, _WRAPPED_TO_PLAIN)},
        "restored, as since 2.3",
        _as_in("2.3.4"),
        versions=("2.1.4",),
        row=FIRST,
    ),
]
