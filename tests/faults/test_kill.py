"""Training that is killed again and again ends where it would have ended anyway."""

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
STEPS = 120
LINES = 12  # after at most so many the program is killed


def live(
    strategy, folder, workers=1, victim=None, when=(0, 0.0), kept="all", steps=STEPS
):
    """Run the program to its end, or until the victim kills itself.

    Args:
      victim: the worker that is killed, or None.
      when: how many lines the victim prints before, and how many seconds pass then.

    Returns:
      What the victim, or the first worker, was at: the words of its last line.
    """
    argv = [sys.executable, PROGRAM, strategy, folder, steps, kept]
    variables = {**QUIET, "KILLED": json.dumps([victim, *when])}
    argv = [str(argument) for argument in argv]
    results = run_workers(argv, workers, HANGS_AFTER, variables, grace=0.0, cwd=folder)
    if victim is None:
        assert_succeeded(results)
    else:
        assert results[victim].returncode == -signal.SIGKILL, results
    lines = results[victim or 0].output.splitlines()
    return [line for line in lines if line.startswith("AT ")][-1].removeprefix("AT ")


def final(folder, workers):
    return [dict(np.load(folder / f"final-{index}.npz")) for index in range(workers)]


def is_equal(one, other):
    return [s.keys() for s in one] == [s.keys() for s in other] and all(
        np.array_equal(a[key], b[key]) for a, b in zip(one, other) for key in a
    )


def check(strategy, tmp_path, kills, workers):
    """Run the program once as it is and once killed so many times: the ends are equal."""
    seed = int(os.environ.get("TF_LSO_SEED") or random.randrange(2**32))
    chance = random.Random(seed)
    whole, killed, points = tmp_path / "whole", tmp_path / "killed", []
    whole.mkdir()
    live(strategy, whole, workers)
    killed.mkdir()
    for _ in range(kills):
        victim = chance.randrange(workers)
        when = chance.randint(1, LINES), chance.uniform(0.0, 0.03)
        points.append(live(strategy, killed, workers, victim, when))
    live(strategy, killed, workers)
    end = final(killed, workers)
    at = collections.Counter(point.split()[0] for point in points)
    print(f"TF_LSO_SEED={seed}: {kills} kills at {points}: {dict(at)}")
    assert is_equal(end, final(whole, workers)), f"seed {seed}, killed at {points}"
    assert "done" not in at, "the program ended before it was killed often enough"
    assert len(set(points)) > kills // 2
    return at, whole


def test_on_two_replicas_killed_twenty_times(tmp_path):
    at, whole = check("mirrored2", tmp_path, kills=20, workers=1)
    assert at["saving"] >= 2  # within a save
    # And a program that does not save the scale ends elsewhere: the test can fail.
    without = tmp_path / "without"
    without.mkdir()
    for steps in (10, STEPS):  # after 10 the scale is not what it was at the start
        live("mirrored2", without, kept="no scale", steps=steps)
    assert not is_equal(final(without, 1), final(whole, 1))


@pytest.mark.multiworker
def test_of_two_workers_one_is_killed_and_both_start_again(tmp_path):
    check("multiworker", tmp_path, kills=5, workers=2)
