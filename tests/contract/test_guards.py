"""Each guard against a fault, taken away: the contract case for it must fail.

A test that cannot fail proves nothing; these show that the cases can.
"""

import contextlib
import functools
import pkgutil

import numpy as np
import pytest
import tensorflow as tf

from tests import families
from tests.contract.cases import CASES, combinations
from tests.contract.setting import Setting
from tests.families import FAMILIES, keras, needs_keras3
from tf_lso.frameworks import keras3_private
from tf_lso.scaling import fast, finite

AGREED = finite.agreed


def _only_here(gradients_, are_equal=False):
    """A verdict that looks at the first replica alone."""
    return AGREED(gradients_, are_equal=True)


def _always_finite(gradients_):
    return finite.Verdict(tf.constant(True))


def _as_given(value, *others):
    return value


_SUM = "tf_lso.optimizers.families.family:_sum_over_replicas"
_SUMMED_ROWS = "tf_lso.scaling.gradients:with_summed_rows"
_NEXT_STATE = "tf_lso.scaling.scale_variables.rule_lib:next_state"
_SCOPE = "tf_lso.optimizers.families.keras3.variables_lib:scope_of"

# Name -> (object:attribute, what stands there without the guard), (case, family).
GUARDS = {
    "the check": (
        ("tf_lso.scaling.finite:_verdict", _always_finite),
        ("sparse_duplicates_that_overflow_when_summed_skip", "new"),
    ),
    "summing before the check": (
        (_SUM, _as_given),
        ("nonfinite_on_one_replica_skips_on_all", "keras3"),
    ),
    "summing once": (
        ("tf_lso.frameworks.keras3_private:already_summed", contextlib.nullcontext),
        ("finite_steps_apply_and_count", "keras3"),
    ),
    "summing before clipping": (
        (_SUM, _as_given),
        ("inner_clipping_follows_aggregation", "keras3"),
    ),
    "adding up rows before the check": (
        (_SUMMED_ROWS, _as_given),
        ("sparse_duplicates_that_overflow_when_summed_skip", "new"),
    ),
    "adding up rows before the update": (
        (_SUMMED_ROWS, _as_given),
        ("repeated_rows_have_one_gradient", "keras3"),
    ),
    "adding up rows after clipping": (
        ("tf_lso.optimizers.families.keras3.Keras3:sums_rows", False),
        ("clipping_takes_repeated_rows_as_they_are", "keras3"),
    ),
    "the dense shape of slices": (
        ("tf_lso.scaling.gradients:with_dense_shape", _as_given),
        ("sparse_gradients_apply", "keras3"),
    ),
    "agreement where the caller sums": (
        ("tf_lso.scaling.finite:agreed", _only_here),
        ("replicas_agree_where_the_caller_aggregates", "legacy"),
    ),
    "agreement of LossScale.update": (
        ("tf_lso.scaling.finite:agreed", _only_here),
        ("loss_scale_update_agrees", "legacy"),
    ),
    "counting each step once": (
        ("tf_lso.frameworks.keras3_private:count_steps_once", lambda optimizer: None),
        ("optimizer_made_outside_the_scope", "keras3"),
    ),
    "building under the variables' strategy": (
        (_SCOPE, lambda strategy: contextlib.nullcontext()),
        ("built_outside_the_scope", "keras3"),
    ),
    "the floor and the halving": (
        (_NEXT_STATE, lambda rule_, state, finite_, where: state),
        ("nonfinite_on_one_replica_skips_on_all", "new"),
    ),
}


# Keras 3 has summed gradients over replicas since 3.2. Before, there is no second sum that
# these guards replace.
AGAINST_A_SECOND_SUM = ("summing once", "adding up rows after clipping")

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
        for name, (_, (_, family)) in GUARDS.items()
    ],
)
def test_a_case_fails_without_its_guard(guard, mirrored2, monkeypatch):
    if guard in AGAINST_A_SECOND_SUM and not keras3_private.aggregates():
        pytest.skip("this Keras does not sum gradients")
    (place, without), of_case = GUARDS[guard]
    owner, _, attribute = place.partition(":")
    # As test_contract.py has it, where it passes.
    chosen = combinations(FAMILIES, mirrored2, choice="styles")
    *_, (name, *setting) = [found for found in chosen if found[:2] == of_case]
    monkeypatch.setattr(pkgutil.resolve_name(owner), attribute, without)
    # Graphs that were made with the guard must not serve, nor those made without it later.
    unshared = functools.cache(fast._graph.__wrapped__)
    monkeypatch.setattr(fast, "_graph", unshared)
    error, message = ERRORS.get(guard, (AssertionError, "."))
    with pytest.raises(error, match=message):
        CASES[name](Setting(*setting, mirrored2, built=True))


def test_a_failed_case_shows_the_values(monkeypatch):
    monkeypatch.setattr(np, "array_equal", lambda *arrays: True)
    case = CASES["nonfinite_on_one_replica_skips_on_all"]
    with pytest.raises(AssertionError, match=r"assert not True"):
        case(Setting("new", "legacy", "eager"))


@needs_keras3
def test_keras_3s_own_wrapper_fails_the_contract(mirrored2):
    """The reference loses the weights here; if Keras mends it, the docs must say so."""
    setting = Setting("keras3", "keras3", "function", mirrored2, built=True)
    x = setting.variable(1.0)
    with mirrored2.scope():
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    setting.linear_step(optimizer, [x])([1.0, float("nan")])
    # NaN has reached the weights. Keras 3.0 and 3.1 do not sum, so that only the replica with
    # the NaN is lost.
    lost = np.isnan(families.copies(x)).tolist()
    assert lost == [families.bare_sums("keras3"), True]
