"""Training that is killed again and again ends where it would have ended anyway."""

import collections
import contextlib
import os
import pathlib
import queue
import random
import signal
import threading
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


class Run:
    """The processes of one life of the program: one, or as many as the cluster has."""

    def __init__(self, strategy, folder, kept="all", workers=1, steps=STEPS):
        addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
        self.lines = queue.Queue()
        self.processes = []
        for index in range(workers):
            own = {"TF_CONFIG": tf_config(addresses, index)} if workers > 1 else {}
            argv = [PROGRAM, strategy, folder, steps, kept]
            said, says = (open(end, mode) for end, mode in zip(os.pipe(), ("r", "w")))
            with says, (folder / f"errors-{index}.txt").open("ab") as log:
                process = preloaded.start(argv, folder, says, log, own)
            self.processes.append(process)
            threading.Thread(target=self._read, args=(index, said), daemon=True).start()

    def _read(self, index, stream):
        with stream:
            for line in stream:
                self.lines.put((index, line.strip()))
        self.lines.put((index, None))

    def next_line(self, deadline):
        return self.lines.get(timeout=max(0.1, deadline - time.monotonic()))

    def kill(self, index):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.processes[index].pid, signal.SIGKILL)
        self.processes[index].wait()

    def end(self):
        for index in range(len(self.processes)):
            self.kill(index)


def live(run, victim=None, lines=None, delay=0.0):
    """Let it run, to its end or until the victim has said so many lines and a while.

    Returns:
      What the victim was at: the words of its last line, or "done".
    """
    deadline = time.monotonic() + HANGS_AFTER
    said, ended = [], set()
    try:
        while len(ended) < len(run.processes):
            index, line = run.next_line(deadline)
            if line is None:
                ended.add(index)
                if victim is None and run.processes[index].wait() != 0:
                    raise RuntimeError(f"worker {index} failed")
            elif index == (victim or 0):
                said.append(line)
                if victim is not None and len(said) >= lines:
                    time.sleep(delay)
                    run.kill(victim)
                    break
    finally:
        run.end()
    while not run.lines.empty():  # what it said while it was left to run
        index, line = run.lines.get()
        if index == (victim or 0) and line is not None:
            said.append(line)
    return said[-1]


def final(folder, workers):
    return [dict(np.load(folder / f"final-{index}.npz")) for index in range(workers)]


def is_equal(one, other):
    return [s.keys() for s in one] == [s.keys() for s in other] and all(
        np.array_equal(a[key], b[key]) for a, b in zip(one, other) for key in a
    )


def killed(strategy, folder, kills, workers, chance):
    """Run the program, killed so many times; return its end and what it was at."""
    folder.mkdir()
    points = []
    for _ in range(kills):
        victim = chance.randrange(workers)
        lines, delay = chance.randint(1, LINES), chance.uniform(0.0, 0.03)
        run = Run(strategy, folder, workers=workers)
        points.append(live(run, victim, lines, delay))
    live(Run(strategy, folder, workers=workers))
    return final(folder, workers), points


def check(strategy, tmp_path, kills, workers):
    seed = int(os.environ.get("TF_LSO_SEED") or random.randrange(2**32))
    chance = random.Random(seed)
    whole = tmp_path / "whole"
    whole.mkdir()
    live(Run(strategy, whole, workers=workers))
    end, points = killed(strategy, tmp_path / "killed", kills, workers, chance)
    at = collections.Counter(point.split()[0] for point in points)
    print(f"TF_LSO_SEED={seed}: {kills} kills at {points}: {dict(at)}")
    assert is_equal(end, final(whole, workers)), f"seed {seed}, killed at {points}"
    assert "done" not in at, "the program ended before it was killed often enough"
    assert len(set(points)) > kills // 2
    return at, whole


def test_on_two_replicas_killed_twenty_times(tmp_path):
    at, whole = check("mirrored", tmp_path, kills=20, workers=1)
    assert at["saving"] >= 2  # within a save
    # And a program that does not save the scale ends elsewhere: the test can fail.
    without = tmp_path / "without"
    without.mkdir()
    for steps in (10, STEPS):  # after 10 the scale is not what it was at the start
        live(Run("mirrored", without, "no scale", steps=steps))
    assert not is_equal(final(without, 1), final(whole, 1))


@pytest.mark.multiworker
def test_of_two_workers_one_is_killed_and_both_start_again(tmp_path):
    check("workers", tmp_path, kills=5, workers=2)
