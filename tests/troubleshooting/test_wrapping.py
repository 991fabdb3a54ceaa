"""The entries of "Wrapping and arguments", and messages that need no entry."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras, keras2, needs_keras3
from tests.troubleshooting.models import one_layer, wrapped_sgd
from tests.troubleshooting.page import assert_explained, raises

tf_keras = keras2


@pytest.fixture
def sgd():
    return tf.keras.optimizers.SGD(0.5)


def test_dynamic_bool(sgd):
    with raises("dynamic-bool"):
        tf_lso.LossScaleOptimizer(sgd, 128)


def test_wrapped_twice(sgd):
    wrapped = tf.keras.mixed_precision.LossScaleOptimizer(sgd)
    with raises("wrapped-twice"):
        tf_lso.LossScaleOptimizer(wrapped)


def test_never_called(shown):
    class Own(tf_keras.optimizers.SGD):
        def _resource_apply_dense(self, grad, var, apply_state=None):
            return var.assign_sub(0.25 * grad)

    tf_lso.LossScaleOptimizer(Own(0.1))
    assert_explained("never-called", shown())


@needs_keras3
def test_overrides_in_fit():
    class Clipping(tf_lso.LossScaleOptimizer):
        def get_unscaled_gradients(self, grads):
            grads = super().get_unscaled_gradients(grads)
            return [tf.clip_by_value(grad, -1.0, 1.0) for grad in grads]

    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile(Clipping(keras.optimizers.SGD(0.5)), "mse")
    with raises("overrides-in-fit"):
        model.fit(np.ones((1, 1)), np.ones((1, 1)), verbose=0)


def test_decay():
    opt = wrapped_sgd()
    with raises("decay-ignored"):
        opt.decay = 0.01


x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")


def test_explain_not_built():
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = one_layer(wrapped_sgd(), built=False)
    with raises("not-built"):
        tf_lso.debugging.explain(model, x, y)
