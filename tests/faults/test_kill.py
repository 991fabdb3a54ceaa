"""Training that is killed again and again ends with the same state as training that is not."""

import collections
import json
import os
import pathlib
import random
import signal
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.families import keras
from tests.processes import HANGS_AFTER, QUIET, assert_succeeded, run_workers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not isinstance(keras.optimizers.SGD(), tf.__internal__.tracking.Trackable),
        reason="tf.train.Checkpoint takes no optimizer of Keras 3.0",
    ),
]

PROGRAM = pathlib.Path(__file__).with_name("program.py")
STEPS = 60
LINES = 12  # a program is killed at the latest after this number of lines


def run_program(strategy, folder, workers, victim=None, lines=0, delay=0.0):
    """Run the program to its end, or until the worker `victim` kills itself.

    The victim does so `delay` seconds after it has printed the given number of lines. Return
    the last line of the victim, or of the first worker if there is no victim.
    """
    argv = [sys.executable, PROGRAM, strategy, folder, STEPS]
    variables = {**QUIET, "KILLED": json.dumps([victim, lines, delay])}
    argv = [str(argument) for argument in argv]
    results = run_workers(argv, workers, HANGS_AFTER, variables, grace=0.0, cwd=folder)
    if victim is None:
        assert_succeeded(results)
    else:
        assert results[victim].returncode == -signal.SIGKILL, results
    lines = results[victim or 0].output.splitlines()
    return [line for line in lines if line.startswith("AT ")][-1].removeprefix("AT ")


def final_states(folder, workers):
    """Return a list with the state of each worker at the end of the program."""
    return [dict(np.load(folder / f"final-{index}.npz")) for index in range(workers)]


def check_kills_change_nothing(strategy, tmp_path, kills, workers):
    """Run the program without kills and with some kills, and check that both ends are equal.

    Return a Counter of the first words of the lines at which the program was killed.
    """
    seed = int(os.environ.get("TF_LSO_SEED") or random.randrange(2**32))
    generator = random.Random(seed)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    run_program(strategy, whole, workers)
    killed.mkdir()
    last_lines = []
    for index in range(kills):
        victim = generator.randrange(workers)
        # The even lines say that a save begins, and every other kill interrupts a save.
        lines = 2 * generator.randint(1, LINES // 2) - index % 2
        delay = generator.uniform(0.0, 0.03 if index % 2 else 0.002)
        last_lines.append(run_program(strategy, killed, workers, victim, lines, delay))
    run_program(strategy, killed, workers)
    expected = final_states(whole, workers)
    actual = final_states(killed, workers)
    counts = collections.Counter(line.split()[0] for line in last_lines)
    print(f"TF_LSO_SEED={seed}: {kills} kills at {last_lines}: {dict(counts)}")
    for state, wanted in zip(actual, expected, strict=True):
        for name in wanted.keys() | state.keys():
            np.testing.assert_array_equal(state[name], wanted[name], str(last_lines))
    assert "done" not in counts, "the program ended before it was killed often enough"
    assert len(set(last_lines)) > kills // 2
    return counts


def test_two_replicas_killed_eight_times_end_with_the_same_state(tmp_path):
    counts = check_kills_change_nothing("mirrored2", tmp_path, kills=8, workers=1)
    assert counts["saving"] >= 2  # at least two kills interrupted a save


@pytest.mark.multiworker
def test_two_workers_of_which_one_is_killed_end_with_the_same_state(tmp_path):
    check_kills_change_nothing("multiworker", tmp_path, kills=3, workers=2)
