"""Training that is killed again and again ends where it would have ended anyway."""

import collections
import contextlib
import os
import pathlib
import random
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from tests import preloaded
from tests.families import keras
from tests.processes import HANGS_AFTER, free_ports, tf_config

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
    strategy, folder, workers=1, victim=None, lines=0, delay=0, kept="all", steps=STEPS
):
    """Run the program, to its end or until the victim has said so many lines and a while.

    Returns:
      What the victim, or the first worker, was at: the words of its last line.
    """
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    argv = [PROGRAM, strategy, folder, steps, kept]
    said = [folder / f"said-{index}.txt" for index in range(workers)]
    processes, deadline = [], time.monotonic() + HANGS_AFTER
    for index in range(workers):
        own = {"TF_CONFIG": tf_config(addresses, index)} if workers > 1 else {}
        log = folder / f"errors-{index}.txt"
        with said[index].open("wb") as out, log.open("ab") as errors:
            processes.append(preloaded.start(argv, folder, out, errors, own))
    try:
        while any(process.poll() is None for process in processes):
            assert time.monotonic() < deadline, "it hangs"
            if victim is None:
                assert not any(process.returncode for process in processes)
            elif len(said[victim].read_text().splitlines()) >= lines:
                time.sleep(delay)
                break
            time.sleep(0.005)
    finally:
        for process in processes[victim or 0 :] + processes[: victim or 0]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert victim is not None or not any(process.returncode for process in processes)
    return said[victim or 0].read_text().splitlines()[-1]


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
        when = {"victim": chance.randrange(workers), "lines": chance.randint(1, LINES)}
        when["delay"] = chance.uniform(0.0, 0.03)
        points.append(live(strategy, killed, workers, **when))
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
