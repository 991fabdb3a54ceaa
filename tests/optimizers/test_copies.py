"""Copies of an optimizer: independent of it, and equal. And its pickles."""

import copy
import pickle

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, here, legacy_step, wrapped
from tf_lso.keras.mixed_precision import experimental


def _trained(optimizer, x):
    for factor in (2.0, float("nan"), 2.0):
        legacy_step(optimizer, lambda factor=factor: x * factor, [x])


def _state(optimizer):
    return [weight.tolist() for weight in optimizer.get_weights()]


def test_a_copy_goes_on_as_the_original_would(family):
    optimizer, x = wrapped(family, "Adam", clipnorm=1.0), tf.Variable(1.0)
    optimizer.learning_rate = 0.25
    _trained(optimizer, x)
    before, start = _state(optimizer), float(x)
    copied = copy.deepcopy(optimizer)
    assert type(copied) is type(optimizer)
    assert _state(copied) == before
    legacy_step(copied, lambda: 2.0 * x, [x])
    moved = float(x)
    assert moved != start
    assert _state(optimizer) == before
    x.assign(start)
    legacy_step(optimizer, lambda: 2.0 * x, [x])
    assert float(x) == moved


def test_a_copy_is_made_before_the_first_step(family):
    optimizer, x = wrapped(family), tf.Variable(1.0)
    copied = copy.deepcopy(optimizer)
    legacy_step(copied, lambda: 2.0 * x, [x])
    assert int(optimizer.iterations.numpy()) == 0
    assert int(copied.iterations.numpy()) == 1


@pytest.mark.parametrize(
    "loss_scale", [64, tf_lso.DynamicLossScale(8.0, 3, 4.0)], ids=["fixed", "dynamic"]
)
def test_a_copy_has_an_equal_loss_scale_of_its_own(family, loss_scale):
    inner = FAMILIES[family].SGD(0.1)
    optimizer = experimental.LossScaleOptimizer(inner, loss_scale)
    copied = copy.deepcopy(optimizer)
    assert copied.loss_scale is not optimizer.loss_scale
    assert copied.loss_scale.get_config() == optimizer.loss_scale.get_config()


def test_a_name_is_copied(family):
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.1), name="mine")
    assert copy.deepcopy(optimizer).name == "mine"


def test_a_pickle_goes_on_as_the_original_would(family):
    optimizer, x = wrapped(family, "Adam", clipnorm=1.0), tf.Variable(1.0)
    optimizer.learning_rate = 0.25
    _trained(optimizer, x)
    start = float(x)
    again = pickle.loads(pickle.dumps(optimizer))
    assert type(again) is type(optimizer)
    for name in ("loss_scale", "dynamic_counter", "iterations", "learning_rate"):
        assert float(getattr(again, name)) == float(getattr(optimizer, name))
    again = pickle.loads(pickle.dumps(again))  # which has not been built
    legacy_step(again, lambda: 2.0 * x, [x])
    moved = float(x)
    x.assign(start)
    legacy_step(optimizer, lambda: 2.0 * x, [x])
    assert float(x) == moved
    assert _state(again) == _state(optimizer)


def test_a_pickle_keeps_a_loss_scale_of_another_class(family):
    inner = FAMILIES[family].SGD(0.1)
    scale = tf_lso.DynamicLossScale(8.0, 3, 4.0)
    optimizer = experimental.LossScaleOptimizer(inner, scale)
    again = pickle.loads(pickle.dumps(optimizer))
    assert type(again.loss_scale) is tf_lso.DynamicLossScale
    assert again.loss_scale.get_config() == scale.get_config()


def test_a_pickle_of_other_variables_is_an_error_when_it_is_built(family):
    optimizer, x = wrapped(family, "Adam"), tf.Variable(1.0)
    _trained(optimizer, x)
    again = pickle.loads(pickle.dumps(optimizer))
    with pytest.raises(ValueError, match="shape"):
        again.build([tf.Variable([1.0, 2.0])])


def test_aggregate_gradients_sums_over_replicas(mirrored2):
    for family in here("keras3", "new"):
        with mirrored2.scope():
            x = tf.Variable(1.0)
            optimizer = wrapped(family)

        def summed(optimizer=optimizer, x=x):
            pairs = optimizer.aggregate_gradients([(tf.constant(2.0), x), (None, x)])
            assert pairs[1][0] is None
            return pairs[0][0]

        results = mirrored2.run(tf.function(summed))
        assert [float(v) for v in results.values] == [4.0, 4.0]
