"""Keras 3 keeps all state of a wrapped optimizer in an .h5 file."""

import numpy as np
import pytest

import tf_lso
from tests.families import keras, numpy

pytestmark = pytest.mark.skipif(
    keras.__version__.startswith("3.0."),
    reason="Keras 3.0 gives two variables one name in an .h5 file, and fails to save",
)

OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.01),
    "momentum": lambda: keras.optimizers.SGD(0.01, momentum=0.9),
    "Adam": lambda: keras.optimizers.Adam(0.01),
    "Nadam": lambda: keras.optimizers.Nadam(0.01),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.01),
    "Ftrl": lambda: keras.optimizers.Ftrl(0.01),
}
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


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_resumes_bit_for_bit(name, tmp_path):
    model = trained(tf_lso.LossScaleOptimizer(OPTIMIZERS[name](), initial_scale=64))
    path = tmp_path / "model.h5"
    model.save(path)
    # By install(), since Keras 3 gives the optimizer its variables only after that.
    with tf_lso.install():
        loaded = keras.models.load_model(path)
    assert isinstance(loaded.optimizer, tf_lso.LossScaleOptimizer)
    assert float(loaded.optimizer.loss_scale) == 32.0
    for left in (0, 1):
        for model_ in (model, loaded):
            go_on(model_) if left else None
        for a, b in zip(state(model), state(loaded), strict=True):
            np.testing.assert_array_equal(a, b)


def test_without_install_the_state_arrives_with_the_first_step(tmp_path):
    model = trained(
        tf_lso.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=64)
    )
    path = tmp_path / "model.h5"
    model.save(path)
    loaded = keras.models.load_model(path)
    go_on(model)
    go_on(loaded)
    for a, b in zip(state(model), state(loaded), strict=True):
        np.testing.assert_array_equal(a, b)


class TestSetWeights:
    def test_takes_the_values_of_variables_too(self):
        model = trained(tf_lso.LossScaleOptimizer(keras.optimizers.Adam()))
        other = trained(tf_lso.LossScaleOptimizer(keras.optimizers.Adam()))
        go_on(model)
        other.optimizer.set_weights([numpy(v) for v in model.optimizer.variables])
        for a, b in zip(model.optimizer.get_weights(), other.optimizer.get_weights()):
            np.testing.assert_array_equal(a, b)

    def test_before_building_keeps_them_until_then(self):
        model = trained(tf_lso.LossScaleOptimizer(keras.optimizers.Adam()))
        optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.Adam())
        optimizer.set_weights(model.optimizer.get_weights())
        optimizer.build(model.trainable_variables)
        for a, b in zip(model.optimizer.get_weights(), optimizer.get_weights()):
            np.testing.assert_array_equal(a, b)

    def test_before_building_on_other_variables_is_an_error_then(self):
        model = trained(tf_lso.LossScaleOptimizer(keras.optimizers.Adam()))
        optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.Adam())
        optimizer.set_weights(model.optimizer.get_weights())
        with pytest.raises(ValueError, match=r"8 slots, but .* has 4"):
            optimizer.build(model.trainable_variables[:2])


def test_building_on_nothing_builds_nothing():
    optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.Adam())
    optimizer.build([])
    assert not optimizer.built
    assert not optimizer.inner_optimizer.built
