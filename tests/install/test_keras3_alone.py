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
CHANGED_NAMES = {
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


@pytest.mark.parametrize("path", CHANGED_NAMES)
def test_install_changes_no_other_name(path):
    owner = keras
    for name in path.split("."):
        owner = getattr(owner, name)
    before = dict(vars(owner))
    with tf_lso.install():
        now = dict(vars(owner))
    assert before.keys() == now.keys()
    changed = {name for name in now if now[name] is not before[name]}
    assert changed == CHANGED_NAMES[path]


@pytest.fixture
def installed():
    with tf_lso.install():
        yield


@pytest.mark.parametrize("ending", ["keras", pytest.param("h5", marks=NO_WRAPPED_H5)])
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_decay_is_ignored_with_a_warning_and_a_loaded_model_trains_on(
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
    for weight, other in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, other)
    copied = tf_lso.LossScaleOptimizer.from_config(optimizer.get_config())
    copied.learning_rate = 0.25
    assert number(copied.learning_rate) == number(copied.lr) == 0.25


def test_a_schedule_is_that_of_keras_3(installed):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    for optimizer in (
        keras.optimizers.SGD(schedule),
        tf_lso.LossScaleOptimizer(keras.optimizers.SGD(schedule)),
    ):
        assert tf.is_tensor(optimizer.learning_rate)
        assert float(optimizer.learning_rate) == 0.5
