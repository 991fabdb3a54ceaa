"""The entries of "Several replicas and workers"."""

import sys

import pytest
import tensorflow as tf

import tf_lso
from tests.families import needs_keras3
from tests.generation import DOES_NOT_HANG
from tests.processes import HANGS_AFTER, QUIET, run_workers
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


@needs_keras3
def test_ema(strategy):
    with strategy.scope():
        x = tf.Variable(1.0)
        inner = tf.keras.optimizers.SGD(0.5, use_ema=True, ema_overwrite_frequency=2)
    with raises("accumulation"):
        step_on(strategy, inner, x)


@needs_keras3
@pytest.mark.slow
@pytest.mark.multiworker
@pytest.mark.parametrize(
    ("wrapper", "hangs"),
    [pytest.param("keras", True, marks=DOES_NOT_HANG), ("tf_lso", False)],
)
def test_workers_hang(wrapper, hangs):
    program = """
import os, sys, threading
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
import tf_lso

with strategy.scope():
    x = tf.Variable(1.0)
    if sys.argv[1] == "keras":
        opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(1.0))
    else:
        opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(1.0))
    opt.build([x])

@tf.function
def step(values):
    def replica_step(value):
        with tf.GradientTape() as tape:
            loss = opt.scale_loss(x * value)
        opt.apply_gradients(zip(tape.gradient(loss, [x]), [x]))
    strategy.run(replica_step, args=(values,))

def feed(*values):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group])
    )

def exit_hung():
    print("one step has hung", flush=True)
    os._exit(7)

step(feed(1.0, 1.0))
timer = threading.Timer(20.0, exit_hung)
timer.start()
step(feed(1.0, float("nan")))
timer.cancel()
"""
    command = [sys.executable, "-c", program, wrapper]
    results = run_workers(command, 2, HANGS_AFTER, QUIET)
    output = "".join(result.output for result in results)
    assert ("one step has hung" in output) == hangs, output
    assert any(result.returncode for result in results) == hangs, output
