"""The entries of "After the upgrade to TensorFlow 2.16"."""

import importlib

import tensorflow as tf

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
