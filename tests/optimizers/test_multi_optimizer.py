"""Keras 3's MultiOptimizer, which gives each variable to one of several optimizers."""

import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import copies

if not hasattr(keras.optimizers, "MultiOptimizer"):
    pytest.skip("this Keras has no MultiOptimizer", allow_module_level=True)


# Three ways to tell a MultiOptimizer which optimizer a variable gets. The variable "x" gets the
# optimizer `first`, and all other variables get `others`.


def by_map(first, others):
    return keras.optimizers.OptimizerMap(others, {"x": first})


def by_function(first, others):
    return lambda variable: first if variable.path == "x" else others


def by_function_that_makes_optimizers(first, others):
    """Return a function as in the documentation of Keras.

    The optimizers do not exist before the MultiOptimizer is built.
    """

    def make_optimizer(variable):
        optimizer = first if variable.path == "x" else others
        return type(optimizer).from_config(optimizer.get_config())

    return make_optimizer


WAYS = [by_map, by_function, by_function_that_makes_optimizers]
NO_STRATEGY = tf.distribute.get_strategy()


def make_optimizer(way, first=None, others=None):
    """Return a LossScaleOptimizer around a MultiOptimizer."""
    first = first or keras.optimizers.SGD(0.5, momentum=0.5)
    others = others or keras.optimizers.SGD(0.5, momentum=0.5)
    multi = keras.optimizers.MultiOptimizer(way(first, others))
    return tf_lso.LossScaleOptimizer(multi, initial_scale=8)


def make_step(optimizer, variables, strategy=NO_STRATEGY):
    """Return a traced step. Its arguments are the gradients of the variables."""

    def replica_step(*gradients):
        # Multiply by 1, so that each replica has a tensor of its own.
        gradients = [g if g is None else g * 1.0 for g in gradients]
        optimizer.apply_gradients(zip(gradients, variables))

    step = tf.function(lambda *gradients: strategy.run(replica_step, gradients))
    return lambda *gradients: step(
        *(g if g is None else tf.constant(g) for g in gradients)
    )


def values(*variables):
    return [float(variable) for variable in variables]


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(
    "way, is_made_in_scope",
    [
        *[(way, True) for way in WAYS],
        (by_map, False),
        # Keras 3 itself does not support `by_function` outside the scope.
        (by_function_that_makes_optimizers, False),
    ],
)
def test_gradients_are_summed_once_and_steps_are_counted_once(
    way, replicas, is_made_in_scope, mirrored2
):
    strategy = mirrored2 if replicas == 2 else NO_STRATEGY
    with strategy.scope():
        x, y = (keras.Variable(0.0, name=name) for name in "xy")
    with (strategy if is_made_in_scope else NO_STRATEGY).scope():
        optimizer = make_optimizer(way)
    step = make_step(optimizer, [x, y], strategy)
    for _ in range(2):
        step(1.0, 2.0)
    # With the learning rate 0.5 and the momentum 0.5, the first step subtracts 0.5 g, and the
    # second step subtracts 0.75 g.
    assert copies(x) == [-1.25 * replicas] * replicas
    assert copies(y) == [-2.5 * replicas] * replicas
    parts = optimizer.inner_optimizer.optimizers
    for each in (optimizer, *parts):
        assert set(copies(each.iterations)) == {2}
    step(float("inf"), 2.0)
    assert copies(y) == [-2.5 * replicas] * replicas
    for part in parts:
        assert set(copies(part.iterations)) == {3}


@pytest.mark.parametrize("way", [by_map, by_function])
def test_a_variable_without_a_gradient_does_not_change(way):
    x, y, z = (keras.Variable(0.0, name=name) for name in "xyz")
    optimizer = make_optimizer(way)
    make_step(optimizer, [x, y, z])(1.0, None, 2.0)
    assert values(x, y, z) == [-0.5, 0.0, -1.0]
    # The variables may come in another order, and y may be left out.
    optimizer.apply_gradients([(tf.constant(2.0), z), (tf.constant(1.0), x)])
    assert values(x, y, z) == [-1.25, 0.0, -2.5]
    # One optimizer may get no gradient, as when one half of a model is trained at a time.
    # Keras 3 itself raises an error.
    optimizer.apply_gradients([(tf.constant(1.0), x), (None, y), (None, z)])
    assert values(x, y, z) == [-2.125, 0.0, -2.5]


@pytest.mark.parametrize("way", [by_map, by_function_that_makes_optimizers])
def test_state_that_is_loaded_before_the_build_is_restored_by_the_build(way):
    x, y = (keras.Variable([1.0, 2.0], name=name) for name in "xy")

    def make():
        sgd, adam = keras.optimizers.SGD(0.5, momentum=0.5), keras.optimizers.Adam(0.1)
        return make_optimizer(way, sgd, adam)

    def saved(optimizer):
        store = {}
        optimizer.save_own_variables(store)
        return store

    optimizer, loaded = make(), make()
    for _ in range(3):
        optimizer.apply_gradients([(tf.constant([1.0, 2.0]), v) for v in (x, y)])
    loaded.load_own_variables(saved(optimizer))
    loaded.build([x, y])
    np.testing.assert_equal(saved(loaded), saved(optimizer))


def test_an_unpickled_optimizer_finds_its_slots_in_another_order_of_the_build():
    x, y = (keras.Variable(1.0, name=name) for name in "xy")
    optimizer = make_optimizer(by_map)
    optimizer.apply_gradients([(tf.constant(1.0), x), (tf.constant(2.0), y)])
    unpickled = pickle.loads(pickle.dumps(optimizer))
    unpickled.build([y, x])
    slots = [part.momentums[0] for part in unpickled.inner_optimizer.optimizers]
    assert values(*slots) == [-0.5, -1.0]
