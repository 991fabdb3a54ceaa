"""The contract on four replicas, and on real workers that talk over loopback."""

import sys

import pytest

from tests.families import needs_keras3
from tests.generation import DOES_NOT_HANG
from tests.processes import HANGS_AFTER, assert_succeeded, run_workers

CONTRACT = [sys.executable, "-m", "tests.contract"]
SLOW, WORKERS = pytest.mark.slow, pytest.mark.multiworker
BOTH = [SLOW, WORKERS]


# The families take turns: test_contract.py has all of them on two replicas. The whole
# contract runs on two workers, in two parts; on three, of which one is neither the first
# nor the last, the cases of a step that must be skipped on all.
@pytest.mark.parametrize(
    ("workers", "arguments"),
    [
        pytest.param(1, "mirrored4 --modes function --built", marks=SLOW),
        pytest.param(2, "multiworker --modes function", marks=BOTH),
        pytest.param(
            2, "multiworker --modes function --choice others --built", marks=BOTH
        ),
        pytest.param(
            3, "multiworker --modes function --only skip --built", marks=WORKERS
        ),
        pytest.param(2, "multiworker --modes eager", marks=BOTH),
    ],
)
def test_the_contract_in_processes(workers, arguments):
    command = [*CONTRACT, "--choice", "families", *arguments.split()]
    results = run_workers(command, workers, HANGS_AFTER)
    assert_succeeded(results)
    for result in results:
        assert " cases passed, 0 cases failed" in result.output


HANGS = """
import os, threading
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
import keras
from tests.contract.setting import Setting

setting = Setting("keras3", "keras3", "function", strategy, built=True)
with strategy.scope():
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
step = setting.linear_step(optimizer, [setting.variable(1.0)])
step(1.0)
print("first step done", flush=True)
timer = threading.Timer(5.0, os._exit, [7])  # from here, however long the start took
timer.start()
step([1.0, float("nan")])
print("second step done", flush=True)
timer.cancel()
"""


@pytest.mark.slow
@pytest.mark.multiworker
@needs_keras3
@DOES_NOT_HANG
def test_keras_3s_own_wrapper_hangs_and_is_killed():
    """What the contract guards against."""
    command = [sys.executable, "-c", HANGS]
    results = run_workers(command, 2, HANGS_AFTER)
    outputs = [result.output for result in results]
    assert all("first step done" in output for output in outputs), outputs
    assert not all("second step done" in output for output in outputs), outputs
