"""The entries of "After the upgrade to TensorFlow 2.16"."""

import importlib

import pytest
import tensorflow as tf

import tf_lso
from tests.families import needs_keras3
from tests.troubleshooting.models import legacy_step
from tests.troubleshooting.page import raises


@needs_keras3
def test_get_scaled_loss(variables):
    opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
    with raises("get-scaled-loss"):
        legacy_step(opt, variables)


def test_experimental():
    with raises("experimental"):
        tf.keras.mixed_precision.experimental.Policy("mixed_float16")


def test_import_experimental():
    with raises("experimental"):
        importlib.import_module("tensorflow.keras.mixed_precision.experimental")


def test_tf_mixed_precision():
    with raises("experimental"):
        tf.mixed_precision.experimental.FixedLossScale(128)


def test_graph_rewrite():
    opt = tf.keras.optimizers.SGD(0.5)
    with raises("experimental"):
        tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)


@needs_keras3
def test_dynamic_false():
    sgd = tf.keras.optimizers.SGD(0.5)
    wrapper = tf.keras.mixed_precision.LossScaleOptimizer
    with raises("get-scaled-loss"):
        wrapper(sgd, dynamic=False, initial_scale=128)


@needs_keras3
def test_loss_scale_argument():
    sgd = tf.keras.optimizers.SGD(0.5)
    with raises("dynamic-bool"):
        tf.keras.mixed_precision.LossScaleOptimizer(sgd, loss_scale="dynamic")


@needs_keras3
def test_lr_argument():
    with raises("lr-attribute"):
        tf.keras.optimizers.SGD(lr=0.1)


@needs_keras3
def test_lr_attribute():
    with raises("lr-attribute"):
        print(tf.keras.optimizers.SGD(0.25).lr)


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
