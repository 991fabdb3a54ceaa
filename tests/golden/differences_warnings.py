"""Where other warnings are given than a recorded version gave, and why."""

import functools

from tests.golden.comparing import as_in
from tests.golden.differences import Difference

_difference = functools.partial(Difference, "warnings_logged")
_as_in = functools.partial(as_in, section="warnings_logged")

# --- The rows of compat_docs/reference/differences.md, by how they begin.

DEPRECATED = "Warnings that a class is deprecated"
FORGOTTEN = "The warning that something was forgotten, in TensorFlow 2.4 to 2.8"
SLOW = "The warning that float16 is slow here, in TensorFlow 2.0 and 2.1"
LAYER_POLICY = "`get_layer_policy` in TensorFlow 2.0 and 2.1"


def _without_deprecated(recorded, case):
    return {"ok": [told for told in recorded["ok"] if told != "deprecated"]}


DIFFERENCES = [
    _difference(
        {
            "case": (
                "DynamicLossScale",
                "FixedLossScale",
                "construct_8",
                "construct_DynamicLossScale_8_3",
                "construct_DynamicLossScale_default",
                "construct_FixedLossScale",
                "construct_dynamic",
            )
        },
        "it is what tf_lso is for",
        _without_deprecated,
        row=DEPRECATED,
    ),
    _difference(
        {
            "case": (
                "apply_without_scaling",
                "only_get_scaled_loss",
                "only_get_unscaled",
            )
        },
        "as since 2.9",
        _as_in("2.9.3"),
        versions=("2.4.4", "2.8.4"),
        row=FORGOTTEN,
    ),
    _difference(
        {"case": "Policy"},
        "as since 2.2",
        _as_in("2.3.4"),
        versions=("2.1.4",),
        row=SLOW,
    ),
    _difference(
        {"case": "get_layer_policy"},
        "there, as since 2.2",
        _as_in("2.3.4"),
        versions=("2.1.4",),
        row=LAYER_POLICY,
    ),
]
