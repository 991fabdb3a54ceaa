"""Keras 3's MultiOptimizer, which gives each variable to one of several optimizers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import copies

if not hasattr(keras.optimizers, "MultiOptimizer"):
    pytest.skip("this Keras has no MultiOptimizer", allow_module_level=True)


def _map(first, others):
    return keras.optimizers.OptimizerMap(others, {"x": first})


def _callable(first, others):
    return lambda variable: first if variable.path == "x" else others


def _made_when_asked(first, others):
    """What Keras documents: parts that do not exist before the optimizer is built."""

    def part(variable):
        part = first if variable.path == "x" else others
        return type(part).from_config(part.get_config())

    return part


KINDS = [_map, _callable, _made_when_asked]
NONE = tf.distribute.get_strategy()


def _made(kind, *parts):
    """A wrapped optimizer of two parts, and it without the wrapper."""
    parts = parts or [keras.optimizers.SGD(0.5, momentum=0.5) for _ in range(2)]
    multi = keras.optimizers.MultiOptimizer(kind(*parts))
    return tf_lso.LossScaleOptimizer(multi, initial_scale=8), multi


def _step(optimizer, variables, strategy=NONE):
    """A traced step, whose gradients are its arguments."""

    def apply(*gradients):
        gradients = [g if g is None else g * 1.0 for g in gradients]  # of each replica
        optimizer.apply_gradients(zip(gradients, variables))

    step = tf.function(lambda *gradients: strategy.run(apply, gradients))
    return lambda *gradients: step(
        *(g if g is None else tf.constant(g) for g in gradients)
    )


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(
    "kind, inside",
    [
        *[(kind, True) for kind in KINDS],
        (_map, False),
        (_made_when_asked, False),  # others know only the wrong strategy, in Keras 3
    ],
)
def test_gradients_are_summed_once_and_steps_counted_once(
    kind, replicas, inside, mirrored2
):
    strategy = mirrored2 if replicas == 2 else NONE
    with strategy.scope():
        x, y = (keras.Variable(0.0, name=name) for name in "xy")
    with (strategy if inside else NONE).scope():
        optimizer, multi = _made(kind)
    step = _step(optimizer, [x, y], strategy)
    for _ in range(2):
        step(1.0, 2.0)
    # A first step of lr * g, a second of lr * (g + 0.5 g).
    assert copies(x) == [-1.25 * replicas] * replicas
    assert copies(y) == [-2.5 * replicas] * replicas
    for counted in (optimizer, *multi.optimizers):
        assert set(copies(counted.iterations)) == {2}
    step(float("inf"), 2.0)
    assert copies(y) == [-2.5 * replicas] * replicas
    for part in multi.optimizers:
        assert set(copies(part.iterations)) == {3}


@pytest.mark.parametrize("kind", [_map, _callable])
def test_a_variable_without_a_gradient_stays(kind):
    x, y, z = (keras.Variable(0.0, name=name) for name in "xyz")
    optimizer, _ = _made(kind)
    _step(optimizer, [x, y, z])(1.0, None, 2.0)
    assert [float(v) for v in (x, y, z)] == [-0.5, 0.0, -1.0]
    # In another order, and without the one that has no gradient.
    optimizer.apply_gradients([(tf.constant(2.0), z), (tf.constant(1.0), x)])
    assert [float(v) for v in (x, y, z)] == [-1.25, 0.0, -2.5]
    # Without any gradient of one part, where Keras 3 itself raises: what trains one half
    # of a model at a time.
    optimizer.apply_gradients([(tf.constant(1.0), x), (None, y), (None, z)])
    assert [float(v) for v in (x, y, z)] == [-2.125, 0.0, -2.5]


def test_a_skipped_micro_step_of_a_part_that_accumulates_is_not_counted():
    x, y = (keras.Variable(0.0, name=name) for name in "xy")
    accumulating = keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)
    optimizer, _ = _made(_map, accumulating, keras.optimizers.SGD(1.0))
    for gradient in (1.0, float("inf"), 1.0):
        optimizer.apply_gradients([(tf.constant(gradient), v) for v in (x, y)])
    assert [float(x), float(y)] == [-1.0, -2.0]


@pytest.mark.parametrize("kind", KINDS)
def test_state_that_is_loaded_before_the_build_waits_for_it(kind):
    x, y = (keras.Variable([1.0, 2.0], name=name) for name in "xy")

    def make():
        optimizers = keras.optimizers
        return _made(kind, optimizers.SGD(0.5, momentum=0.5), optimizers.Adam(0.1))[0]

    def saved(optimizer):
        optimizer.save_own_variables(store := {})
        return store

    made, other = make(), make()
    for _ in range(3):
        made.apply_gradients([(tf.constant([1.0, 2.0]), v) for v in (x, y)])
    other.load_own_variables(saved(made))
    other.build([x, y])
    np.testing.assert_equal(saved(other), saved(made))
