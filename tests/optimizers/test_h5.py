"""Keras 3 keeps all state of a wrapped optimizer in an .h5 file."""

import contextlib

import numpy as np
import pytest

import tf_lso
from tests.families import keras, numpy

pytestmark = pytest.mark.skipif(
    keras.__version__.startswith("3.0."),
    reason="Keras 3.0 gives two variables one name in an .h5 file, and fails to save",
)

X = np.random.RandomState(0).rand(8, 3).astype("float32")
Y = X.sum(1, keepdims=True)


def trained(optimizer):
    """A model that has taken two good steps and one that overflows."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.add(keras.layers.Dense(1))
    model.compile(optimizer, keras.losses.MeanSquaredError())
    go_on(model)
    model.train_on_batch(X * np.inf, Y)
    return model


def go_on(model):
    for _ in range(2):
        model.train_on_batch(X, Y)


def state(model):
    optimizer = model.optimizer
    counted = [optimizer.iterations, optimizer.dynamic_counter]
    return [
        *model.get_weights(),
        *optimizer.get_weights(),
        *[v for v in map(numpy, counted) if v is not None],
    ]


@pytest.mark.parametrize(
    "name, install", [("SGD", True), ("RMSprop", True), ("Ftrl", False)]
)
def test_training_resumes_bit_for_bit(name, install, tmp_path):
    inner = getattr(keras.optimizers, name)(0.01)
    model = trained(tf_lso.LossScaleOptimizer(inner, initial_scale=64))
    path = tmp_path / "model.h5"
    model.save(path)
    # Keras 3 gives the optimizer its variables only after that: by install() at once,
    # else with the first step.
    with tf_lso.install() if install else contextlib.nullcontext():
        loaded = keras.models.load_model(path)
    assert isinstance(loaded.optimizer, tf_lso.LossScaleOptimizer)
    if install:
        assert float(loaded.optimizer.loss_scale) == 32.0
        assert_equal(state(model), state(loaded))
    go_on(model)
    go_on(loaded)
    assert_equal(state(model), state(loaded))


def assert_equal(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_set_weights_before_and_after_building():
    model, other = (
        trained(tf_lso.LossScaleOptimizer(keras.optimizers.Adam())) for _ in "ab"
    )
    go_on(model)
    weights = model.optimizer.get_weights()
    # The values of variables too.
    other.optimizer.set_weights([numpy(v) for v in model.optimizer.variables])
    assert_equal(weights, other.optimizer.get_weights())
    waiting, wrong = (tf_lso.LossScaleOptimizer(keras.optimizers.Adam()) for _ in "ab")
    for optimizer in (waiting, wrong):
        optimizer.set_weights(weights)
    waiting.build(model.trainable_variables)
    assert_equal(weights, waiting.get_weights())
    with pytest.raises(ValueError, match=r"8 slots, but .* has 4"):
        wrong.build(model.trainable_variables[:2])


def test_building_on_nothing_builds_nothing():
    optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.Adam())
    optimizer.build([])
    assert not optimizer.built
    assert not optimizer.inner_optimizer.built
