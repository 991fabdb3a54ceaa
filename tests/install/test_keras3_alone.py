"""`install()` changes nothing in Keras 3 that has nothing to do with loss scaling."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras


@pytest.mark.keras3
def test_a_schedule_is_that_of_keras_3():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    with tf_lso.install():
        for optimizer in (
            keras.optimizers.SGD(schedule),
            tf_lso.LossScaleOptimizer(keras.optimizers.SGD(schedule)),
        ):
            assert tf.is_tensor(optimizer.learning_rate)
            assert float(optimizer.learning_rate) == 0.5
