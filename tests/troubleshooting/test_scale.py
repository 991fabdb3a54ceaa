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


def test_nan_loss():
    x = np.full((4, 2), 6e4, "float32")
    keras.mixed_precision.set_global_policy("mixed_float16")
    big = keras.layers.Dense(8, name="big", kernel_initializer="ones")
    model = keras.Sequential([keras.Input((2,)), big, keras.layers.Dense(1)])
    model.compile(tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1)), "mse")
    history = model.fit(x, y, epochs=2, verbose=0).history
    assert not np.isfinite(history["loss"]).any()
    assert np.isfinite(model.get_weights()[0]).all()

    report = tf_lso.debugging.explain(model, x, y)
    print(report.first.kind, report.first)
    assert (report.first.kind, report.first.layer) == ("forward overflow", "big")


def test_scales_no_loss(shown):
    tf_lso.install()
    keras.mixed_precision.set_global_policy("mixed_float16")
    x = tf.ones((4, 2))
    model = one_layer("sgd")
    model.d_optimizer = keras.optimizers.SGD(0.1)
    model.fit(x, y, verbose=0)
    assert_explained("scales-no-loss", shown())


def test_two_scales(shown):
    tf_lso.install()
    mixed_precision = tf.keras.mixed_precision.experimental
    mixed_precision.set_policy(mixed_precision.Policy("mixed_float16", loss_scale=128))
    sgd = tf.keras.optimizers.SGD(0.1)
    model = one_layer(mixed_precision.LossScaleOptimizer(sgd, loss_scale=64))
    assert float(model.optimizer.loss_scale) == 64
    assert "the model's policy has another" in shown()


def test_float32_vars():
    from tf_lso.keras.mixed_precision import experimental

    with pytest.raises(ValueError, match="use 'mixed_float16' instead"):
        experimental.Policy("float16_with_float32_vars")


def test_two_ways_to_float16():
    rewrite = tf_lso.train.experimental.enable_mixed_precision_graph_rewrite
    rewrite(keras.optimizers.SGD())
    set_policy = tf_lso.keras.mixed_precision.experimental.set_policy
    with pytest.raises(ValueError, match="because the mixed precision graph rewrite"):
        set_policy("mixed_float16")
