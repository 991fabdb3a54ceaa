"""A training program that saves after each step, for tests that kill it.

    program.py STRATEGY FOLDER STEPS KEPT  # KEPT is "all" or "no scale"

It trains on two replicas, or as one of two workers if TF_CONFIG says so, goes on from the
last checkpoint, prints what it is at, and ends with its whole state in
FOLDER/final-WORKER.npz. KILLED='[1, 5, 0.01]' makes worker 1 kill itself 0.01 s after its
fifth line.
"""

import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import json
import pathlib
import signal
import threading

import numpy as np
import tensorflow as tf

import tf_lso
from tests import devices

# Infinite gradients: the scale falls at these steps, and grows after each 3 good ones.
OVERFLOWS = 7

SCALE = 64


TASK = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"index": 0})
VICTIM, LINES, DELAY = json.loads(os.environ.get("KILLED", "[null, 0, 0]"))
said = []


def say(*words):
    print("AT", *words, flush=True)
    said.append(words)
    if TASK["index"] == VICTIM and len(said) == LINES:
        kill = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        threading.Timer(DELAY, kill).start()


def last_of_all(folders):
    """The number of the last checkpoint that each worker has finished, or None."""
    found = []
    for folder in folders:
        state = tf.train.get_checkpoint_state(str(folder))
        paths = state.all_model_checkpoint_paths if state else ()
        found.append({int(path.rsplit("-", 1)[1]) for path in paths})
    common = set.intersection(*found)
    return max(common) if common else None


def main(name, folder, steps, kept):
    folder, worker = pathlib.Path(folder), TASK["index"]
    workers = 2 if name == "multiworker" else 1
    folders = [folder / f"worker-{index}" for index in range(workers)]
    # Read before the strategy starts, which waits for all: nobody saves until then.
    number = last_of_all(folders)
    strategy = devices.strategy(name)
    with strategy.scope():
        variables = [tf.Variable([1.0, -2.0], name="x"), tf.Variable(0.5, name="y")]
        optimizer = tf_lso.LossScaleOptimizer(
            tf.keras.optimizers.Adam(0.1, amsgrad=True),
            initial_scale=SCALE,
            dynamic_growth_steps=3,
        )
    checkpoint = tf.train.Checkpoint(optimizer=optimizer, variables=variables)
    # Three are kept: a worker may be one step ahead of the other when it is killed.
    manager = tf.train.CheckpointManager(checkpoint, str(folders[worker]), 3)

    @tf.function
    def step(factor):
        def on_replica(factor):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variables[0] ** 2 * factor) + variables[1] ** 2
                scaled = optimizer.get_scaled_loss(loss * variables[1])
            gradients = optimizer.get_unscaled_gradients(
                tape.gradient(scaled, variables)
            )
            optimizer.apply_gradients(zip(gradients, variables))

        strategy.run(on_replica, (factor,))

    with strategy.scope():
        optimizer.build(variables)
    if number is not None:
        status = checkpoint.restore(str(folders[worker] / f"ckpt-{number}"))
        status.assert_existing_objects_matched()
        if kept == "no scale":  # as a program that forgets it: so the test can fail
            optimizer.loss_scale = SCALE
    start = int(optimizer.iterations.numpy())
    say("started at", start)
    for index in range(start, steps):
        factor = np.inf if index % OVERFLOWS == 3 else 0.1 + index % 5
        step(tf.constant(factor, tf.float32))
        say("saving", index)
        manager.save(checkpoint_number=index)
        say("saved", index)
    np.savez(
        folder / f"final-{worker}.npz",
        *[v.numpy() for v in variables],
        *optimizer.get_weights(),
    )
    say("done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
