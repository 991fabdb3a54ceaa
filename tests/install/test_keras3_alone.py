"""`install()` changes nothing in Keras 3 that has nothing to do with loss scaling."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras, number
from tests.generation import NO_WRAPPED_H5

pytestmark = pytest.mark.keras3

X, Y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
# Maps a module or class of Keras 3 to the names in it that `install()` changes.
OWNERS = {
    "optimizers.Optimizer": set(),
    "optimizers.SGD": set(),
    "optimizers.Adam": set(),
    "optimizers.schedules.LearningRateSchedule": set(),
    "optimizers": {"deserialize"},
    "callbacks.LearningRateScheduler": set(),
    "callbacks.ReduceLROnPlateau": set(),
    "layers.Layer": set(),
    "layers.Dense": set(),
    "losses": set(),
    "metrics": set(),
    "Variable": set(),
}


@pytest.mark.parametrize("path", OWNERS)
def test_it_is_unchanged(path):
    owner = keras
    for name in path.split("."):
        owner = getattr(owner, name)
    before = dict(vars(owner))
    with tf_lso.install():
        now = dict(vars(owner))
    assert before.keys() == now.keys()
    assert {name for name in now if now[name] is not before[name]} == OWNERS[path]


@pytest.fixture
def installed():
    with tf_lso.install():
        yield


@pytest.mark.parametrize("ending", ["keras", pytest.param("h5", marks=NO_WRAPPED_H5)])
@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_decay_is_ignored_with_a_warning_and_the_model_goes_on(
    name, ending, installed, tmp_path
):
    """Keras 3 has no `decay`. A model that was saved with such an optimizer trains on."""
    with pytest.warns(UserWarning, match="`decay` is no longer supported"):
        inner = getattr(keras.optimizers, name)(0.1, decay=0.5)
    optimizer = tf_lso.LossScaleOptimizer(inner)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer, keras.losses.MeanSquaredError())
    model.fit(X, Y, epochs=2, verbose=0)
    path = str(tmp_path / f"model.{ending}")
    model.save(path)
    loaded = keras.models.load_model(path)
    for trained in (model, loaded):
        assert number(trained.optimizer.iterations) == 2
        trained.fit(X, Y, verbose=0)
        assert number(trained.optimizer.iterations) == 3
    for one, two in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    again = tf_lso.LossScaleOptimizer.from_config(optimizer.get_config())
    again.learning_rate = 0.25
    assert number(again.learning_rate) == number(again.lr) == 0.25


def test_a_schedule_is_that_of_keras_3(installed):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    for optimizer in (
        keras.optimizers.SGD(schedule),
        tf_lso.LossScaleOptimizer(keras.optimizers.SGD(schedule)),
    ):
        assert tf.is_tensor(optimizer.learning_rate)
        assert float(optimizer.learning_rate) == 0.5
