"""Compare the rule of the loss scale with a second, different implementation."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tf_lso
from tf_lso.scaling import rule as rule_lib

pytestmark = pytest.mark.core

FLOAT32_MAX = float(np.finfo(np.float32).max)


class Model:
    """A loss scale as specified, in float32 and plain statements.

    `count` is the number of finite steps in a row.
    """

    def __init__(self, rule):
        self.rule, self.scale = rule, np.float32(rule.initial_scale)
        self.count = 0

    @np.errstate(all="ignore")
    def step(self, finite):
        rule, scale = self.rule, np.float32(self.scale)
        factor = np.float32(rule.growth_factor)
        self.count = self.count + 1 if finite else 0
        if not (np.isfinite(scale) and scale > 0):
            self.scale, self.count = np.float32(rule.initial_scale), 0
        elif self.count >= rule.growth_steps:
            self.count = 0
            if scale * factor <= np.float32(rule.max_scale):
                self.scale = scale * factor
        elif not finite:
            if rule.backoff_factor is None:
                smaller = scale / factor
            else:
                smaller = scale * np.float32(rule.backoff_factor)
            if np.isfinite(smaller):
                scale = smaller
            self.scale = max(scale, np.float32(rule.min_scale))


@st.composite
def rules(draw):
    """Draw a rule whose scale reaches its limits within a few steps."""
    limits = st.floats(2.0**-10, 2.0**20, width=32)
    minimum, maximum = sorted([draw(limits), draw(limits)])
    return rule_lib.ScaleRule(
        initial_scale=draw(st.floats(minimum, maximum, width=32)),
        growth_steps=draw(st.integers(1, 4)),
        growth_factor=draw(st.sampled_from([2.0, 4.0, 3.0, 1.5, 10.0, 1.0])),
        # The defaults of TensorFlow stand twice, so that Hypothesis draws them more often.
        backoff_factor=draw(st.sampled_from([None, None, 0.5, 0.25, 0.75, 0.0625])),
        min_scale=minimum,
        max_scale=draw(st.sampled_from([maximum, FLOAT32_MAX])),
    )


@np.errstate(over="ignore", under="ignore")
def next_float32(rule, state, finite):
    """Return the next state. All computations are in float32, as those of the variable."""
    # NumPy 1 computes the product of a float32 and a Python float in float64.
    growth, backoff = np.float32(rule.growth_factor), rule.backoff_factor
    rule = dataclasses.replace(
        rule,
        growth_factor=growth,
        backoff_factor=None if backoff is None else np.float32(backoff),
    )
    state = rule_lib.next_state(rule, state, finite)
    return state._replace(scale=np.float32(state.scale))


@settings(max_examples=300, deadline=None)
@given(
    rule=rules(),
    scale=st.floats(width=32)
    | st.sampled_from([0.0, -1.0, float("nan"), float("inf"), 1e-45, FLOAT32_MAX]),
    count=st.integers(0, 4) | st.integers(0, 10**6),
    finite=st.booleans(),
)
def test_one_step_of_the_rule_from_any_state_equals_that_of_the_model(
    rule, scale, count, finite
):
    """A checkpoint may contain any state, and also a scale that cannot be used."""
    before = rule_lib.ScaleState(np.float32(scale), count)
    model = Model(rule)
    model.scale, model.count = before.scale, before.count
    model.step(finite)
    state = next_float32(rule, before, finite)
    assert (state.scale, state.count) == (model.scale, model.count)
    assert np.isfinite(state.scale) and state.scale > 0
    if rule.min_scale <= scale <= rule.max_scale:
        assert rule.min_scale <= state.scale <= rule.max_scale
    assert state.count < rule.growth_steps
    if rule_lib.only_counts(rule, before, finite):
        assert (state.scale, state.count) == (before.scale, count + 1)
    else:
        assert state.count == 0


def test_a_growth_factor_below_1_shrinks_to_no_more_than_the_largest_float32():
    rule = rule_lib.ScaleRule(growth_factor=0.5, backoff_factor=None)
    state = rule_lib.next_state(rule, rule_lib.ScaleState(3e38, 0), finite=False)
    assert state == rule_lib.ScaleState(3e38, 0)


def test_the_defaults_are_those_of_tensorflow():
    assert rule_lib.ScaleRule() == rule_lib.ScaleRule(
        initial_scale=2.0**15,
        growth_steps=2000,
        growth_factor=2.0,
        backoff_factor=0.5,
        min_scale=1.0,
        max_scale=FLOAT32_MAX,
    )


def dynamic_loss_scale(rule):
    """Return a `DynamicLossScale` with the arguments that correspond to the rule."""
    names = rule_lib.OF_DYNAMIC_LOSS_SCALE
    return tf_lso.DynamicLossScale(**rule_lib.arguments_of(rule, names, rule, names))


# The first arguments are the initial scale and the number of steps after which it grows.
RULES = {
    "limits": rule_lib.ScaleRule(8.0, 1, min_scale=0.5, max_scale=32.0),
    "grows_by_1.7": rule_lib.ScaleRule(
        7.0, 2, growth_factor=1.7, min_scale=0.3, max_scale=1000.0
    ),
    "backoff": rule_lib.ScaleRule(
        8.0, 3, growth_factor=4.0, backoff_factor=0.125, min_scale=0.01
    ),
    "largest_float32": rule_lib.ScaleRule(2.0**125, 1),
}


@pytest.mark.parametrize("name", RULES)
def test_a_traced_loss_scale_equals_the_model(name):
    rule = RULES[name]
    loss_scale, model = dynamic_loss_scale(rule), Model(rule)
    update = tf.function(lambda gradient: loss_scale.update([gradient])[1])
    # About 70 % of the steps are finite.
    for finite in np.random.default_rng(2).random(60) < 0.7:
        verdict = update(tf.constant(1.0 if finite else float("nan")))
        model.step(finite)
        assert bool(verdict) == finite
        # Graphs multiply by the reciprocal of a constant instead of dividing by it.
        is_power_of_two = rule.growth_factor in (2.0, 4.0)
        tolerance = 0 if is_power_of_two else 1e-5
        expected = pytest.approx(float(model.scale), rel=tolerance, abs=0)
        assert float(loss_scale()) == expected
        assert int(loss_scale._num_good_steps) == model.count


@settings(max_examples=60, deadline=None)
@given(rule=rules(), verdicts=st.lists(st.booleans(), min_size=1, max_size=8))
def test_an_eager_loss_scale_equals_the_model(rule, verdicts):
    loss_scale, model = dynamic_loss_scale(rule), Model(rule)
    for finite in verdicts:
        loss_scale.update([tf.constant(1.0 if finite else float("inf"))])
        model.step(finite)
        assert float(loss_scale()) == model.scale
        assert int(loss_scale._num_good_steps) == model.count
