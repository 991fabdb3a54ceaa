"""Each guard against a fault, taken away: the contract case for it must fail.

A test that cannot fail proves nothing; these show that the cases can.
"""

import contextlib
import functools
import pkgutil

import numpy as np
import pytest
import tensorflow as tf

from tests.contract.cases import CASES
from tests.contract.setting import Setting
from tests.families import keras, needs_keras3
from tf_lso.scaling import fast, finite

AGREED = finite.agreed


def _only_here(gradients_, are_equal=False):
    """A verdict that looks at the first replica alone."""
    return AGREED(gradients_, are_equal=True)


# Name -> (object:attribute, what stands there without the guard, case, family).
GUARDS = {
    "the check": (
        "tf_lso.scaling.finite:_are_finite",
        lambda tensors: tf.constant(True),
        "sparse_duplicates_that_overflow_when_summed_skip",
        "new",
    ),
    "summing before the check": (
        "tf_lso.optimizers.families.family:_sum_over_replicas",
        lambda grads_and_vars: grads_and_vars,
        "nonfinite_on_one_replica_skips_on_all",
        "keras3",
    ),
    "summing once": (
        "tf_lso.keras3_private:already_summed",
        contextlib.nullcontext,
        "finite_steps_apply_and_count",
        "keras3",
    ),
    "summing before clipping": (
        "tf_lso.optimizers.families.family:_sum_over_replicas",
        lambda grads_and_vars: grads_and_vars,
        "inner_clipping_follows_aggregation",
        "keras3",
    ),
    "adding up rows before the check": (
        "tf_lso.scaling.gradients:with_summed_rows",
        lambda gradient: gradient,
        "sparse_duplicates_that_overflow_when_summed_skip",
        "new",
    ),
    "adding up rows before the update": (
        "tf_lso.scaling.gradients:with_summed_rows",
        lambda gradient: gradient,
        "repeated_rows_have_one_gradient",
        "keras3",
    ),
    "the dense shape of slices": (
        "tf_lso.scaling.gradients:with_dense_shape",
        lambda gradient, variable: gradient,
        "sparse_gradients_apply",
        "keras3",
    ),
    "agreement where the caller sums": (
        "tf_lso.scaling.finite:agreed",
        _only_here,
        "replicas_agree_where_the_caller_aggregates",
        "legacy",
    ),
    "agreement of LossScale.update": (
        "tf_lso.scaling.finite:agreed",
        _only_here,
        "loss_scale_update_agrees",
        "legacy",
    ),
    "counting each step once": (
        "tf_lso.keras3_private:count_steps_once",
        lambda optimizer: None,
        "optimizer_made_outside_the_scope",
        "keras3",
    ),
    "building under the variables' strategy": (
        "tf_lso.optimizers.families.keras3.variables_lib:scope_of",
        lambda strategy: contextlib.nullcontext(),
        "built_outside_the_scope",
        "keras3",
    ),
    "the floor and the halving": (
        "tf_lso.scaling.scale_variables.rule_lib:next_state",
        lambda rule_, state, finite_, where: state,
        "nonfinite_on_one_replica_skips_on_all",
        "new",
    ),
}


# Without these Keras raises before there is a wrong number. Elsewhere only a failed
# assertion counts: another error might be one of what stands in the guard's place.
ERRORS = {
    "the dense shape of slices": (ValueError, "without dense_shape"),
    "building under the variables' strategy": (RuntimeError, "strategy.scope"),
}


@pytest.mark.parametrize(
    "guard",
    [
        pytest.param(name, marks=[needs_keras3] if family == "keras3" else [])
        for name, (*_, family) in GUARDS.items()
    ],
)
def test_a_case_fails_without_its_guard(guard, mirrored2, monkeypatch):
    place, without, case, family = GUARDS[guard]
    owner, _, attribute = place.partition(":")
    style, mode = CASES[case].styles[0], CASES[case].modes[-1]
    setting = Setting(family, style, mode, mirrored2, built=True)
    if setting.mode == "jit":
        setting.mode = "function"
    CASES[case](setting)
    monkeypatch.setattr(pkgutil.resolve_name(owner), attribute, without)
    # Graphs that were made with the guard must not serve, nor those made without it later.
    unshared = functools.cache(fast._graph.__wrapped__)
    monkeypatch.setattr(fast, "_graph", unshared)
    error, message = ERRORS.get(guard, (AssertionError, "."))
    with pytest.raises(error, match=message):
        CASES[case](setting)


def test_a_failed_case_shows_the_values(monkeypatch):
    monkeypatch.setattr(np, "array_equal", lambda *arrays: True)
    case, setting = (
        "nonfinite_on_one_replica_skips_on_all",
        Setting("new", "legacy", "eager"),
    )
    with pytest.raises(AssertionError, match=r"assert not True"):
        CASES[case](setting)


@needs_keras3
def test_keras_3s_own_wrapper_fails_the_contract(mirrored2):
    """The reference loses the weights here; if Keras mends it, the docs must say so."""
    with mirrored2.scope():
        x = tf.Variable(1.0, name="x")
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
        optimizer.build([x])
    setting = Setting("keras3", "keras3", "function", mirrored2)

    def replica_step(g):
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(x * g)
        optimizer.apply_gradients(zip(tape.gradient(loss, [x]), [x]))

    setting.compiled(replica_step)(setting.feed([1.0, float("nan")]))
    values = [v.numpy() for v in mirrored2.experimental_local_results(x)]
    assert all(value != value for value in values), "NaN has reached the weights"
