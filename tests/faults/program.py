"""A training program that saves a checkpoint after each step, for tests that kill it.

    program.py STRATEGY FOLDER STEPS

STRATEGY is the name of a strategy of `tests.devices`: "mirrored2" for two replicas, or
"multiworker" for one of the two workers in TF_CONFIG. The program continues from the last
checkpoint in FOLDER. It prints a line before and after each save. At the end, it writes its
whole state to FOLDER/final-WORKER.npz.

With the environment variable KILLED='[1, 5, 0.01]', worker 1 kills itself 0.01 s after it has
printed its fifth line.
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

# One of seven steps has infinite gradients and lowers the scale. Three finite steps in a row
# raise the scale.
OVERFLOW_PERIOD = 7
INITIAL_SCALE = 64

TASK = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"index": 0})
VICTIM, LINES, DELAY = json.loads(os.environ.get("KILLED", "[null, 0, 0]"))
printed_lines = []


def report(*words):
    """Print a line. After the line that KILLED names, kill this process."""
    print("AT", *words, flush=True)
    printed_lines.append(words)
    if TASK["index"] == VICTIM and len(printed_lines) == LINES:
        arguments = (os.getpid(), signal.SIGKILL)
        threading.Timer(DELAY, os.kill, arguments).start()


def last_common_checkpoint(folders):
    """Return the number of the last checkpoint that all workers have finished, or None."""
    numbers_of_workers = []
    for folder in folders:
        state = tf.train.get_checkpoint_state(str(folder))
        paths = state.all_model_checkpoint_paths if state else ()
        numbers_of_workers.append({int(path.rsplit("-", 1)[1]) for path in paths})
    common = set.intersection(*numbers_of_workers)
    return max(common) if common else None


def main(name, folder, steps):
    folder, worker = pathlib.Path(folder), TASK["index"]
    workers = 2 if name == "multiworker" else 1
    folders = [folder / f"worker-{index}" for index in range(workers)]
    # Read the folders before the strategy starts. The start waits for all workers, so no worker
    # saves before all have read the folders.
    number = last_common_checkpoint(folders)
    strategy = devices.strategy(name)
    with strategy.scope():
        variables = [tf.Variable([1.0, -2.0], name="x"), tf.Variable(0.5, name="y")]
        optimizer = tf_lso.LossScaleOptimizer(
            tf.keras.optimizers.Adam(0.1, amsgrad=True),
            initial_scale=INITIAL_SCALE,
            dynamic_growth_steps=3,
        )
    checkpoint = tf.train.Checkpoint(optimizer=optimizer, variables=variables)
    # Keep three checkpoints, because one worker may be a step ahead of the other when it is
    # killed.
    manager = tf.train.CheckpointManager(
        checkpoint, str(folders[worker]), max_to_keep=3
    )

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
    start = int(optimizer.iterations.numpy())
    report("started at", start)
    for index in range(start, steps):
        factor = np.inf if index % OVERFLOW_PERIOD == 3 else 0.1 + index % 5
        step(tf.constant(factor, tf.float32))
        report("saving", index)
        manager.save(checkpoint_number=index)
        report("saved", index)
    np.savez(
        folder / f"final-{worker}.npz",
        *[v.numpy() for v in variables],
        *optimizer.get_weights(),
    )
    report("done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
