"""The entries of "After the upgrade to TensorFlow 2.16"."""

import importlib

import pytest
import tensorflow as tf

import tf_lso
from tests.families import needs_keras3, number
from tests.troubleshooting.models import legacy_step
from tests.troubleshooting.page import raises


@needs_keras3
def test_get_scaled_loss(variables):
    opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
    with raises("get-scaled-loss"):
        legacy_step(opt, variables)

    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
    legacy_step(opt, variables)
    assert float(variables[0]) == 0


def test_experimental():
    with raises("experimental"):
        tf.keras.mixed_precision.experimental.Policy("mixed_float16")

    tf_lso.install()
    tf.keras.mixed_precision.experimental.Policy("mixed_float16")


def test_import_experimental():
    with raises("experimental"):
        from tensorflow.keras.mixed_precision import experimental

    tf_lso.install()
    importlib.import_module("tensorflow.keras.mixed_precision.experimental")
    from tensorflow.keras.mixed_precision import experimental

    assert experimental.Policy("mixed_float16").compute_dtype == "float16"


def test_tf_mixed_precision():
    with raises("tf-mixed-precision"):
        scale = tf.mixed_precision.experimental.FixedLossScale(128)

    scale = tf_lso.mixed_precision.experimental.FixedLossScale(128)
    assert float(scale()) == 128


def test_graph_rewrite(variables):
    opt = tf.keras.optimizers.SGD(0.5)
    with raises("tf-mixed-precision"):
        opt = tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)

    opt = tf_lso.train.experimental.enable_mixed_precision_graph_rewrite(opt)
    legacy_step(opt, variables)
    assert float(variables[0]) == 0


@needs_keras3
def test_dynamic_false():
    sgd = tf.keras.optimizers.SGD(0.5)
    wrapper = tf.keras.mixed_precision.LossScaleOptimizer
    with raises("dynamic-false"):
        opt = wrapper(sgd, dynamic=False, initial_scale=128)

    opt = tf_lso.LossScaleOptimizer(sgd, dynamic=False, initial_scale=128)
    assert float(opt.loss_scale) == 128


@needs_keras3
def test_loss_scale_argument():
    sgd = tf.keras.optimizers.SGD(0.5)
    with raises("loss-scale-argument"):
        opt = tf.keras.mixed_precision.LossScaleOptimizer(sgd, loss_scale="dynamic")

    from tf_lso.keras.mixed_precision import experimental

    opt = experimental.LossScaleOptimizer(sgd, loss_scale="dynamic")
    assert float(opt.loss_scale()) == 2**15


@needs_keras3
def test_lr_argument():
    with raises("lr-argument"):
        opt = tf.keras.optimizers.SGD(lr=0.1)

    opt = tf.keras.optimizers.SGD(learning_rate=0.1)
    assert number(opt.learning_rate) == pytest.approx(0.1)


@needs_keras3
def test_lr_attribute():
    opt = tf.keras.optimizers.SGD(0.25)
    with raises("lr-attribute"):
        rate = opt.lr

    rate = opt.learning_rate
    assert number(rate) == 0.25


@needs_keras3
def test_loss_does_not_move(variables):
    def guarded_step(opt):
        """Take a step as programs do that ask for the methods first."""
        has = hasattr(opt, "get_scaled_loss")
        with tf.GradientTape() as tape:
            loss = variables[0] ** 2
            loss = opt.get_scaled_loss(loss) if has else loss
        grads = tape.gradient(loss, variables)
        grads = opt.get_unscaled_gradients(grads) if has else grads
        opt.apply_gradients(zip(grads, variables))

    opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
    guarded_step(opt)
    assert float(variables[0]) == pytest.approx(2, abs=1e-3)

    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
    guarded_step(opt)
    assert float(variables[0]) == pytest.approx(0, abs=1e-3)
