"""The short recorded cases on tf_lso: every version, every family, every difference."""

import functools

import pytest
import tensorflow as tf

from tests.families import CURRENT, here, needs_keras3
from tests.golden import collecting, comparing, differences, harness, replays

# Family in the record -> the families here whose optimizers compute the same. Those of
# Keras 3 are the `new` ones of 2.11; what needs no inner arithmetic is played once.
_ALL = {"v2": here("legacy", "keras3"), "new": here("new")}
_FAMILIES = {
    "scaled_loss": _ALL,
    "unscaled_gradients": _ALL,
    "sparse_and_half": {"v2": here("legacy"), "new": here("new", "keras3")},
    "minimize_variants": _ALL,
    "floor_and_overflow": _ALL,
    # OptimizerV2 alone has transformers and aggregators.
    "extras": {"v2": here("legacy"), "new": ()},
}


def _with_attributes(result):
    result = replays.recorded(result)
    # The optimizers of 2.1 to 2.3 did not have these attributes.
    for name in ("growth", "initial_scale"):
        result["ok"].setdefault(name, differences.ANYTHING)
    return result


def _is_equal(actual, expected, case, family):
    if family == "keras3":  # whose slots have other names
        actual, expected = (replays.without(v, "slots") for v in (actual, expected))
    return replays.equal(actual, expected, harness.SAME_KERNELS)


SECTIONS = {
    name: comparing.Section(
        name,
        functools.partial(replays.REPLAYS[name], harness.ours),
        equal=_is_equal,
        families=families,
        file="golden",
        recorded=_with_attributes if name == "floor_and_overflow" else replays.recorded,
        each=True,
    )
    for name, families in _FAMILIES.items()
}


@collecting.each(comparing.parameters(SECTIONS), by=comparing.group)
def test_equals_every_version(section, case, results, family):
    section.check(case, results, family)


@needs_keras3
@pytest.mark.parametrize("section", SECTIONS)
def test_every_difference_is_needed(section):
    idle = SECTIONS[section].idle()
    assert not idle, f"No recorded case shows these: {idle}"


@pytest.mark.parametrize("scale", [4.0, 3.0])
def test_bfloat16_loss_stays_bfloat16(scale):
    # The record shows it as float32, which NumPy has.
    optimizer = harness.ours(harness.inner_optimizer(CURRENT, "SGD"), "fixed", scale)
    loss = optimizer.get_scaled_loss(tf.constant(1.5, tf.bfloat16))
    assert loss.dtype == tf.bfloat16
