"""The entries of "The loss scale and NaN", and messages that need no entry."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras
from tests.troubleshooting.models import one_layer
from tests.troubleshooting.page import assert_explained

y = np.ones((4, 1), "float32")


def test_stuck(shown):
    x = np.full((4, 2), np.nan, "float32")
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = one_layer(
        tf_lso.LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=1)
    )
    model.fit(x, y, verbose=0)
    assert_explained("stuck", shown())


def test_scales_no_loss(shown):
    tf_lso.install()
    keras.mixed_precision.set_global_policy("mixed_float16")
    x = tf.ones((4, 2))
    model = one_layer("sgd")
    model.d_optimizer = keras.optimizers.SGD(0.1)
    model.fit(x, y, verbose=0)
    assert_explained("scales-no-loss", shown())


def test_float32_vars():
    from tf_lso.keras.mixed_precision import experimental

    with pytest.raises(ValueError, match="use 'mixed_float16' instead"):
        experimental.Policy("float16_with_float32_vars")
