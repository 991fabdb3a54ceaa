"""The contract on four replicas, and on workers: processes that talk over loopback."""

import sys

import pytest

from tests.families import CURRENT, needs_keras3
from tests.generation import DOES_NOT_HANG
from tests.processes import HANGS_AFTER, assert_succeeded, run_workers

SLOW, WORKERS = pytest.mark.slow, pytest.mark.multiworker


# Each row has a number of processes, and the arguments of `tests/contract/__main__.py`. One
# family is enough on four replicas, because test_contract.py has all families on two replicas.
@pytest.mark.parametrize(
    ("workers", "arguments"),
    [
        pytest.param(
            1,
            f"mirrored4 --modes function --families {CURRENT} --styles legacy --built",
            marks=SLOW,
        ),
        pytest.param(
            2,
            "multiworker --modes eager --styles legacy",
            marks=[SLOW, WORKERS],
        ),
        pytest.param(
            2,
            "multiworker --modes function --styles legacy --built",
            marks=[SLOW, WORKERS],
        ),
        pytest.param(
            2,
            "multiworker --modes function --styles keras3",
            marks=[SLOW, WORKERS],
        ),
        # Of three workers, one is neither the first nor the last worker. Such a worker matters
        # when all workers must skip a step because one worker has an overflow.
        pytest.param(
            3,
            f"multiworker --modes function --families {CURRENT} --styles legacy --built"
            " --only skip",
            marks=WORKERS,
        ),
    ],
)
def test_the_contract_in_processes(workers, arguments):
    command = [sys.executable, "-m", "tests.contract", *arguments.split()]
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

setting = Setting("keras3", style="keras3", mode="function", strategy=strategy, built=True)
with strategy.scope():
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
step = setting.linear_step(optimizer, [setting.variable(1.0)])
step(1.0)
print("first step done", flush=True)
timer = threading.Timer(5.0, os._exit, [7])  # the second step needs far less time
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
    """The contract guards against this: one worker has NaN, and the other waits forever."""
    command = [sys.executable, "-c", HANGS]
    results = run_workers(command, 2, HANGS_AFTER)
    outputs = [result.output for result in results]
    assert all("first step done" in output for output in outputs), outputs
    assert not all("second step done" in output for output in outputs), outputs
