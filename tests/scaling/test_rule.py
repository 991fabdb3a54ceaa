"""The rule of the loss scale against a second implementation, written differently."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tf_lso
from tf_lso.scaling import options
from tf_lso.scaling import rule as rule_lib

pytestmark = pytest.mark.core

FLOAT32_MAX = float(np.finfo(np.float32).max)


class Model:
    """A loss scale as the specification says it, in float32 and plain statements."""

    def __init__(self, rule):
        self.rule, self.scale = rule, np.float32(rule.initial_scale)
        self.count = self.bad = 0

    @np.errstate(all="ignore")
    def step(self, finite):
        rule, scale = self.rule, np.float32(self.scale)
        factor = np.float32(rule.growth_factor)
        self.bad = 0 if finite else self.bad + 1
        self.count = self.count + 1 if finite else 0
        if not (np.isfinite(scale) and scale > 0):
            self.scale, self.count = np.float32(rule.initial_scale), 0
        elif self.count >= rule.growth_steps:
            self.count = 0
            if scale * factor <= np.float32(rule.max_scale):
                self.scale = scale * factor
        elif self.bad >= rule.hysteresis:
            if rule.backoff_factor is None:
                candidate = scale / factor
            else:
                candidate = scale * np.float32(rule.backoff_factor)
            candidate = candidate if np.isfinite(candidate) else scale
            self.scale = max(candidate, np.float32(rule.min_scale))


@st.composite
def rules(draw):
    """A rule whose numbers are float32, small enough to be near its own limits."""
    numbers = st.floats(2.0**-10, 2.0**20, width=32)
    floor, cap = sorted([draw(numbers), draw(numbers)])
    return rule_lib.ScaleRule(
        initial_scale=draw(st.floats(floor, cap, width=32)),
        growth_steps=draw(st.integers(1, 4)),
        growth_factor=draw(st.sampled_from([2.0, 4.0, 3.0, 1.5, 10.0, 1.0])),
        backoff_factor=draw(st.sampled_from([None, None, 0.5, 0.25, 0.75, 0.0625])),
        hysteresis=draw(st.sampled_from([1, 1, 2, 3])),
        min_scale=floor,
        max_scale=draw(st.sampled_from([cap, FLOAT32_MAX])),
    )


@np.errstate(over="ignore", under="ignore")
def next_float32(rule, state, finite):
    """The next state, its scale in float32 as the variable holds it."""
    factors = {
        name: value and np.float32(value)  # NumPy 1 makes float64 of float32 and float
        for name, value in vars(rule).items()
        if name.endswith("_factor")
    }
    state = rule_lib.next_state(dataclasses.replace(rule, **factors), state, finite)
    return state._replace(scale=np.float32(state.scale))


@settings(max_examples=300, deadline=None)
@given(rule=rules(), verdicts=st.lists(st.booleans(), max_size=60))
def test_the_rule_and_the_model_agree_step_by_step_within_the_limits(rule, verdicts):
    model, state = Model(rule), rule_lib.ScaleState(np.float32(rule.initial_scale), 0)
    for finite in verdicts:
        model.step(finite)
        state = next_float32(rule, state, finite)
        assert state[:2] == (model.scale, model.count)
        assert math.isfinite(state.scale)
        assert rule.min_scale <= state.scale <= rule.max_scale
        assert 0 <= state.count < rule.growth_steps


@settings(max_examples=300, deadline=None)
@given(
    rule=rules(),
    scale=st.floats(width=32)
    | st.sampled_from([0.0, -1.0, float("nan"), float("inf"), 1e-45, FLOAT32_MAX]),
    count=st.integers(0, 10**6),
    finite=st.booleans(),
)
def test_one_step_from_any_state_that_a_checkpoint_may_hold(rule, scale, count, finite):
    model, before = Model(rule), rule_lib.ScaleState(np.float32(scale), count)
    model.scale, model.count = before[:2]
    model.step(finite)
    state = next_float32(rule, before, finite)
    assert state[:2] == (model.scale, model.count)
    assert np.isfinite(state.scale) and state.scale > 0
    assert state.count < rule.growth_steps
    if rule_lib.only_counts(rule, before, finite):
        assert state[:2] == (before.scale, count + 1)
    else:
        assert state.count == 0


def test_the_defaults_are_those_of_tensorflow():
    assert rule_lib.ScaleRule() == rule_lib.ScaleRule(
        2.0**15, 2000, 2.0, 0.5, 1, 1.0, FLOAT32_MAX
    )


@pytest.mark.parametrize(
    ("scale", "count", "finite", "expected"),
    [
        (64.0, 1999, True, (128.0, 0, 0)),
        (64.0, 1998, True, (64.0, 1999, 0)),
        (64.0, 1999, False, (32.0, 0, 1)),
        (1.0, 7, False, (1.0, 0, 1)),  # the floor
        (2.0**127, 1999, True, (2.0**127, 0, 0)),  # not to infinity
        (4.0, 5000, True, (8.0, 0, 0)),  # from a checkpoint
    ],
)
def test_the_defaults_move_as_in_tensorflow(scale, count, finite, expected):
    state = rule_lib.ScaleState(np.float32(scale), count)
    assert next_float32(rule_lib.ScaleRule(), state, finite) == expected


def test_hysteresis_waits_for_skipped_steps_in_a_row():
    rule = rule_lib.ScaleRule(16.0, 100, hysteresis=3)
    state, scales = rule_lib.ScaleState(16.0, 0), []
    for finite in [False, False, True, False, False, False, False, True, False]:
        state = rule_lib.next_state(rule, state, finite)
        scales.append(float(state.scale))
    assert scales == [16, 16, 16, 16, 16, 8, 4, 4, 4]


def test_a_rule_and_a_state_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        rule_lib.ScaleRule().growth_factor = 3.0
    state = rule_lib.ScaleState(8.0, 1)
    rule_lib.next_state(rule_lib.ScaleRule(), state, False)
    assert state == (8.0, 1, 0)


def dynamic(rule):
    names = options.OF_DYNAMIC_LOSS_SCALE
    return tf_lso.DynamicLossScale(**options.arguments_of(rule, names, rule, names))


RULES = {
    "halves": rule_lib.ScaleRule(8.0, 3),
    "limits": rule_lib.ScaleRule(8.0, 1, min_scale=0.5, max_scale=32.0),
    "thirds": rule_lib.ScaleRule(9.0, 2, 3.0, min_scale=0.1),
    "odd": rule_lib.ScaleRule(7.0, 2, 1.7, min_scale=0.3, max_scale=1000.0),
    "backs_off": rule_lib.ScaleRule(8.0, 3, 4.0, 0.125, min_scale=0.01),
    "waits": rule_lib.ScaleRule(2.0**20, 3, hysteresis=3),
    "waits_and_grows": rule_lib.ScaleRule(2.0**20, 1, hysteresis=2),
    "top": rule_lib.ScaleRule(2.0**125, 1),
    "no_move": rule_lib.ScaleRule(5.0, 1, 1.0),
}


@pytest.mark.parametrize("name", RULES)
def test_the_variables_move_in_a_function_as_the_model_says(name):
    rule = RULES[name]
    loss_scale, model = dynamic(rule), Model(rule)
    update = tf.function(lambda gradient: loss_scale.update([gradient])[1])
    for finite in np.random.default_rng(2).random(60) < 0.7:
        verdict = update(tf.constant(1.0 if finite else float("nan")))
        model.step(finite)
        assert bool(verdict) == finite
        # Graphs multiply by the reciprocal of a constant instead of dividing by it.
        exact = rule.growth_factor in (1.0, 2.0, 4.0)
        assert float(loss_scale()) == pytest.approx(
            float(model.scale), rel=0 if exact else 1e-5, abs=0
        )
        assert int(loss_scale._num_good_steps) == model.count


@settings(max_examples=60, deadline=None)
@given(rule=rules(), verdicts=st.lists(st.booleans(), min_size=1, max_size=8))
def test_the_variables_move_as_the_model_says_for_any_rule(rule, verdicts):
    loss_scale, model = dynamic(rule), Model(rule)
    for finite in verdicts:
        loss_scale.update([tf.constant(1.0 if finite else float("inf"))])
        model.step(finite)
        assert float(loss_scale()) == model.scale
        assert int(loss_scale._num_good_steps) == model.count
