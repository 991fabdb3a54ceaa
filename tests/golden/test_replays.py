"""The short recorded cases on tf_lso: every version, every family, every difference."""

import re

import pytest
import tensorflow as tf

from tests.families import CURRENT, here, needs_keras3
from tests.golden import collecting, differences, harness, replays

# Family in the record -> the families here whose optimizers compute the same. Those of
# Keras 3 are the `new` ones of 2.11; what needs no inner arithmetic is played once.
_FAMILIES = {
    "scaled_loss": {"v2": ["legacy", "keras3"], "new": ["new"]},
    "unscaled_gradients": {"v2": ["legacy", "keras3"], "new": ["new"]},
    "sparse_and_half": {"v2": ["legacy"], "new": ["new", "keras3"]},
    "minimize_variants": {"v2": ["legacy", "keras3"], "new": ["new"]},
    "floor_and_overflow": {"v2": ["legacy", "keras3"], "new": ["new"]},
    # OptimizerV2 alone has transformers and aggregators.
    "extras": {"v2": ["legacy"]},
}


def _parameters():
    for section, families in _FAMILIES.items():
        for case, results in harness.cases(section):
            for family in here(*families.get(case["family"], [])):
                name = f"{section}-{harness.name_of(case)}-{family}"
                yield pytest.param(section, case, results, family, id=name)


def _recorded(section, result):
    result = replays.recorded(result)
    if section == "floor_and_overflow":
        # The optimizers of 2.1 to 2.3 did not have these attributes.
        for name in ("growth", "initial_scale"):
            result["ok"].setdefault(name, differences.ANYTHING)
    return result


@collecting.each(
    list(_parameters()),
    by=lambda section, case, results, family: f"{section}-{family}",
)
def test_equals_every_version(section, case, results, family):
    actual = replays.REPLAYS[section](harness.ours, family, case)

    def is_actual(recorded, listed):
        for difference in listed:
            recorded = difference.expected(recorded, case)
        if family == "keras3":  # whose slots have other names
            without_slots = replays.without(actual, "slots")
            return replays.equal(
                without_slots, replays.without(recorded, "slots"), harness.SAME_KERNELS
            )
        return replays.equal(actual, recorded, harness.SAME_KERNELS)

    for entry in results:
        recorded = _recorded(section, entry["result"])
        for version in entry["versions"]:
            listed = differences.of(section, case, family, version)
            assert is_actual(recorded, listed), f"{version}: {recorded}, now {actual}"
            for difference in listed:
                if difference.message:
                    assert re.search(difference.message, actual["message"])
                if harness.SAME_KERNELS:
                    others = [d for d in listed if d is not difference]
                    assert not is_actual(recorded, others), (
                        f"{version} does not differ in this: {difference.reason}"
                    )


@needs_keras3
def test_every_difference_is_met():
    met = {
        id(difference)
        for section, families in _FAMILIES.items()
        for case, results in harness.cases(section)
        for family in families.get(case["family"], [])
        for entry in results
        for version in entry["versions"]
        for difference in differences.of(section, case, family, version)
    }
    idle = [d for d in differences.DIFFERENCES if id(d) not in met]
    assert not idle, f"No recorded case shows these: {idle}"


@pytest.mark.parametrize("scale", [4.0, 3.0])
def test_bfloat16_loss_stays_bfloat16(scale):
    # The record shows it as float32, which NumPy has.
    optimizer = harness.ours(harness.inner_optimizer(CURRENT, "SGD"), "fixed", scale)
    loss = optimizer.get_scaled_loss(tf.constant(1.5, tf.bfloat16))
    assert loss.dtype == tf.bfloat16
