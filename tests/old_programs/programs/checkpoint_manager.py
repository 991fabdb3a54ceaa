# tf.train.Checkpoint and CheckpointManager around a model and its wrapped optimizer;
# the second half restores and goes on as if there had been no break.
# Written for TF 2.4 - 2.15.
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")
folder = os.path.join(tempfile.mkdtemp(), "checkpoints")
data = np.random.RandomState(0).rand(6, 4, 3).astype("float32")
data[1] *= 1e6


def build():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(2, kernel_initializer="ones"),
            tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32"),
        ]
    )
    model.build((None, 3))
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
        tf.keras.optimizers.Adam(0.01), initial_scale=4096, dynamic_growth_steps=3
    )
    checkpoint = tf.train.Checkpoint(
        step=tf.Variable(0, dtype=tf.int64), model=model, optimizer=optimizer
    )
    return checkpoint, tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)


def train(checkpoint, batches):
    model, optimizer = checkpoint.model, checkpoint.optimizer
    for x in batches:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True)))
            scaled = optimizer.get_scaled_loss(loss)
        grads = tape.gradient(scaled, model.trainable_variables)
        grads = optimizer.get_unscaled_gradients(grads)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        checkpoint.step.assign_add(1)
    return float(loss)


def state(checkpoint):
    optimizer = checkpoint.optimizer
    return {
        "step": int(checkpoint.step),
        "scale": float(optimizer.loss_scale),
        "counter": int(optimizer.dynamic_counter),
        "iterations": int(optimizer.iterations),
    }


first, manager = build()
fresh = bool(manager.restore_or_initialize())
train(first, data[:4])
path = manager.save()
at_break = state(first)
unbroken = train(first, data[4:])

second, manager = build()
status = second.restore(manager.latest_checkpoint)
status.assert_existing_objects_matched()
restored = state(second)
resumed = train(second, data[4:])
result = {
    "fresh": fresh,
    "file": os.path.basename(path),
    "at_break": at_break,
    "restored": restored,
    "end": state(second),
    "losses": [round(unbroken, 3), round(resumed, 3)],
    "same": bool(abs(unbroken - resumed) <= 1e-5 * abs(unbroken)),
}
print("RESULT", json.dumps(result))
