"""The entries of "Several replicas and workers"."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import needs_keras3
from tests.troubleshooting.models import legacy_step, wrapped_sgd
from tests.troubleshooting.page import raises


@pytest.fixture
def strategy(mirrored2):
    return mirrored2


def test_strategy():
    strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0"])
    with strategy.scope(), raises("strategy"):
        wrapped_sgd()


def test_replica_context(strategy):
    with strategy.scope():
        x = tf.Variable(1.0)
        opt = wrapped_sgd()
        opt.build([x])

    @tf.function
    def step():
        scaled_loss = opt.get_scaled_loss(tf.constant(1.0))
        gradients = opt.get_unscaled_gradients([scaled_loss])
        opt.apply_gradients([(gradients[0], x)])

    with strategy.scope(), raises("replica-context"):
        step()


def test_scope(strategy):
    with raises("scope"):
        step_on(strategy, tf.keras.optimizers.SGD(0.25), tf.Variable(1.0))


@needs_keras3
def test_placeholder(strategy):
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        opt = wrapped_sgd()

    def step():
        with tf.GradientTape() as tape:
            loss = opt.get_scaled_loss(tf.reduce_mean(model(tf.ones((4, 2))) ** 2))
        variables = model.trainable_variables
        grads = opt.get_unscaled_gradients(tape.gradient(loss, variables))
        opt.apply_gradients(zip(grads, variables))

    with raises("scope"):
        tf.function(lambda: strategy.run(step))()


def step_on(strategy, inner, variable):
    """Wrap `inner`, take a step on the strategy, and return the wrapper."""
    with strategy.scope():
        opt = tf_lso.LossScaleOptimizer(inner)
    tf.function(lambda: strategy.run(lambda: legacy_step(opt, [variable])))()
    return opt


@needs_keras3
def test_accumulation(strategy):
    with strategy.scope():
        x = tf.Variable(1.0)
        inner = tf.keras.optimizers.SGD(0.5, gradient_accumulation_steps=2)
    with raises("accumulation"):
        step_on(strategy, inner, x)
