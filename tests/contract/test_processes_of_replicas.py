"""The contract on four replicas, and on real workers that talk over loopback."""

import sys

import pytest

from tests.families import needs_keras3
from tests.processes import HANGS_AFTER, assert_succeeded, run_workers

CONTRACT = [sys.executable, "-m", "tests.contract"]


# The families take turns: test_contract.py has all of them on two replicas.
@pytest.mark.slow
def test_four_mirrored_replicas():
    command = [*CONTRACT, "mirrored4", "--modes", "function", "--choice", "families"]
    command += ["--built"]
    results = run_workers(command, 1, HANGS_AFTER, after_tensorflow=True)
    assert_succeeded(results)
    assert " cases passed, 0 cases failed" in results[0].output


# The whole contract on two workers, in two parts; on three, of which one is neither the
# first nor the last, the cases of a step that must be skipped on all.
@pytest.mark.multiworker
@pytest.mark.parametrize(
    "workers, only, choice",
    [
        (3, "skip", "families"),
        pytest.param(2, "", "families", marks=pytest.mark.slow),
        pytest.param(2, "", "others", marks=pytest.mark.slow),
    ],
)
def test_workers(workers, only, choice):
    command = [*CONTRACT, "multiworker", "--modes", "function"]
    command += ["--only", only, "--choice", choice]
    command += ["--built"] if workers == 3 or choice == "others" else []
    results = run_workers(command, workers, HANGS_AFTER, after_tensorflow=True)
    assert_succeeded(results)
    for result in results:
        assert " cases passed, 0 cases failed" in result.output


@pytest.mark.slow
@pytest.mark.multiworker
def test_two_workers_eagerly():
    command = [*CONTRACT, "multiworker", "--modes", "eager", "--choice", "families"]
    assert_succeeded(run_workers(command, 2, HANGS_AFTER, after_tensorflow=True))


HANGS = """
import os, threading
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
import keras
with strategy.scope():
    x = tf.Variable(1.0, name="x")
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    optimizer.build([x])

@tf.function
def step(g):
    def replica_step(g):
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(x * g)
        optimizer.apply_gradients(zip(tape.gradient(loss, [x]), [x]))
    strategy.run(replica_step, args=(g,))

def feed(values):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group]))

step(feed([1.0, 1.0]))
print("first step done", flush=True)
timer = threading.Timer(5.0, os._exit, [7])  # from here, however long the start took
timer.start()
step(feed([1.0, float("nan")]))
print("second step done", flush=True)
timer.cancel()
"""


@pytest.mark.slow
@pytest.mark.multiworker
@needs_keras3
def test_keras_3s_own_wrapper_hangs_and_is_killed():
    """What the contract guards against."""
    command = [sys.executable, "-c", HANGS]
    results = run_workers(command, 2, HANGS_AFTER, after_tensorflow=True)
    outputs = [result.output for result in results]
    assert all("first step done" in output for output in outputs), outputs
    assert not all("second step done" in output for output in outputs), outputs
