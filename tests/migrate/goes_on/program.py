"""A migrated program that trains and saves, or continues from a checkpoint.

python program.py FOLDER train         trains five steps
python program.py FOLDER save          does the same, and saves a checkpoint in FOLDER
python program.py FOLDER checkpoint    restores by tf.train.Checkpoint, and trains five steps
python program.py FOLDER restore       does the same by tf_lso.checkpoints.restore
"""

import json
import sys

import numpy as np
import tensorflow as tf

import tf_lso

folder, part = sys.argv[1:]
path = f"{folder}/ckpt"
inputs = np.random.RandomState(0).rand(10, 8, 3).astype("float32")
inputs[3] *= 1e20  # the gradients overflow, so the optimizer skips the step
inputs[7] *= 1e20

model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(4, kernel_initializer="ones", name="hidden"),
        tf.keras.layers.Dense(1, kernel_initializer="ones", name="head"),
    ]
)
model.build((None, 3))
optimizer = tf_lso.keras.mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.Adam(0.05), initial_scale=4096, dynamic_growth_steps=3
)
if part == "checkpoint":
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    checkpoint.read(path).assert_existing_objects_matched()
elif part == "restore":
    tf_lso.checkpoints.restore(path, model=model, optimizer=optimizer)

steps = []
for x in inputs[:5] if part in ("train", "save") else inputs[5:]:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
        scaled = optimizer.get_scaled_loss(loss)
    grads = tape.gradient(scaled, model.trainable_variables)
    grads = optimizer.get_unscaled_gradients(grads)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    steps.append(
        {
            "loss": float(loss),
            "scale": float(optimizer.loss_scale),
            "counter": int(optimizer.dynamic_counter.numpy()),
            "iterations": int(optimizer.iterations.numpy()),
        }
    )
if part == "save":
    tf.train.Checkpoint(model=model, optimizer=optimizer).write(path)
print("RESULT", json.dumps(steps))
