"""Remove each guard of tf_lso against a fault, and check that a contract case fails.

So these tests show that the cases can fail.
"""

import contextlib
import functools
import pkgutil
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tests import families
from tests.contract.cases import CASES
from tests.contract.setting import Setting
from tests.families import keras, needs_keras3
from tf_lso.frameworks import keras3_private
from tf_lso.scaling import fast, finite

_agreed = finite.agreed  # the function itself, without a guard's replacement


def _verdict_of_the_first_replica(gradients, are_equal=False):
    return _agreed(gradients, are_equal=True)


def _always_finite(gradients):
    return finite.Verdict(tf.constant(True))


def _unchanged(value, *others):
    return value


class Guard(NamedTuple):
    """A guard, and the contract case that fails without the guard.

    Attributes:
      target: where the guard is, as "object:attribute".
      replacement: what replaces the guard.
      case: the name of the contract case.
      family: the family with which the case runs.
      is_against_a_second_sum: whether the guard prevents that Keras 3 sums gradients again.
        Keras 3 has summed gradients over replicas since version 3.2.
      error: the class of the error with which the case fails. Most cases must fail by an
        assertion: another error might come from the replacement itself. But without some
        guards, Keras raises an error before there is a wrong number.
      message: a regular expression for the message of the error.
    """

    target: str
    replacement: Any
    case: str
    family: str
    is_against_a_second_sum: bool = False
    error: type[Exception] = AssertionError
    message: str = "."


_SUM = "tf_lso.optimizers.families.family:_sum_over_replicas"
_ROWS = "tf_lso.scaling.gradients:with_summed_rows"

GUARDS = {
    "check that gradients are finite": Guard(
        target="tf_lso.scaling.finite:_verdict",
        replacement=_always_finite,
        case="sparse_duplicates_that_overflow_when_summed_skip",
        family="new",
    ),
    "sum over replicas before the check": Guard(
        target=_SUM,
        replacement=_unchanged,
        case="nonfinite_on_one_replica_skips_on_all",
        family="keras3",
    ),
    "sum over replicas only once": Guard(
        target="tf_lso.frameworks.keras3_private:already_summed",
        replacement=contextlib.nullcontext,
        case="finite_steps_apply_and_count",
        family="keras3",
        is_against_a_second_sum=True,
    ),
    "sum over replicas before clipping": Guard(
        target=_SUM,
        replacement=_unchanged,
        case="inner_clipping_follows_aggregation",
        family="keras3",
    ),
    "sum repeated rows before the check": Guard(
        target=_ROWS,
        replacement=_unchanged,
        case="sparse_duplicates_that_overflow_when_summed_skip",
        family="new",
    ),
    "sum repeated rows before the update": Guard(
        target=_ROWS,
        replacement=_unchanged,
        case="repeated_rows_are_summed_before_the_update",
        family="keras3",
    ),
    "sum repeated rows after clipping": Guard(
        target="tf_lso.optimizers.families.keras3.Keras3:sums_rows",
        replacement=False,
        case="repeated_rows_are_clipped_before_they_are_summed",
        family="keras3",
        is_against_a_second_sum=True,
    ),
    "give slices a dense shape": Guard(
        target="tf_lso.scaling.gradients:with_dense_shape",
        replacement=_unchanged,
        case="sparse_gradients_apply",
        family="keras3",
        error=ValueError,
        message="without dense_shape",
    ),
    "agree if the caller sums the gradients": Guard(
        target="tf_lso.scaling.finite:agreed",
        replacement=_verdict_of_the_first_replica,
        case="replicas_agree_if_the_caller_aggregates",
        family="legacy",
    ),
    "agree in LossScale.update": Guard(
        target="tf_lso.scaling.finite:agreed",
        replacement=_verdict_of_the_first_replica,
        case="loss_scale_update_agrees_on_all_replicas",
        family="legacy",
    ),
    "count each step once": Guard(
        target="tf_lso.frameworks.keras3_private:count_steps_once",
        replacement=lambda optimizer: None,
        case="optimizer_made_outside_the_scope",
        family="keras3",
    ),
    "build in the scope of the variables": Guard(
        target="tf_lso.optimizers.families.keras3.variables_lib:scope_of",
        replacement=lambda strategy: contextlib.nullcontext(),
        case="optimizer_built_outside_the_scope",
        family="keras3",
        error=RuntimeError,
        message="strategy.scope",
    ),
    "halve the scale": Guard(
        target="tf_lso.scaling.loss_scale.rule_lib:next_state",
        replacement=lambda rule, state, finite, where: state,
        case="nonfinite_on_one_replica_skips_on_all",
        family="new",
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs_keras3 if guard.family == "keras3" else [])
        for name, guard in GUARDS.items()
    ],
)
def test_a_case_fails_without_its_guard(name, mirrored2, monkeypatch):
    guard = GUARDS[name]
    if guard.is_against_a_second_sum and not keras3_private.aggregates():
        pytest.skip("this Keras does not sum gradients")
    owner, _, attribute = guard.target.partition(":")
    monkeypatch.setattr(pkgutil.resolve_name(owner), attribute, guard.replacement)
    # All optimizers share the graphs of `fast._graph`. This test must not use graphs that were
    # traced with the guard, and must not leave graphs that were traced without the guard.
    unshared = functools.cache(fast._graph.__wrapped__)
    monkeypatch.setattr(fast, "_graph", unshared)
    # In this setting, test_contract.py shows that the case passes with the guard.
    setting = Setting(guard.family, "legacy", "function", mirrored2, built=True)
    with pytest.raises(guard.error, match=guard.message):
        CASES[guard.case](setting)


def test_a_failed_case_shows_the_values(monkeypatch):
    """pytest rewrites the assertions of cases.py, as it does for those of test files."""
    monkeypatch.setattr(np, "array_equal", lambda *arrays: True)
    case = CASES["nonfinite_on_one_replica_skips_on_all"]
    with pytest.raises(AssertionError, match=r"assert not True"):
        case(Setting("new", "legacy", "eager"))


@needs_keras3
def test_keras_3s_own_wrapper_fails_the_contract(mirrored2):
    """If this fails, Keras has mended the fault, and differences.md must say so."""
    setting = Setting("keras3", "keras3", "function", mirrored2, built=True)
    x = setting.variable(1.0)
    with mirrored2.scope():
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    setting.linear_step(optimizer, [x])([1.0, float("nan")])
    # NaN has reached the variable. Keras 3.0 and 3.1 do not sum gradients, so there only the
    # replica with NaN is lost.
    is_nan = np.isnan(families.copies(x)).tolist()
    assert is_nan == [families.bare_sums("keras3"), True]
