"""A training loop that continues from its last checkpoint, as in TensorFlow's guide."""

import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mixed_precision

EPOCHS_PER_START = 2
FOLDER = "training_checkpoints"

mixed_precision.set_policy(mixed_precision.Policy("mixed_float16"))


class Net(tf.keras.Model):
    def __init__(self):
        super(Net, self).__init__()
        self.hidden = tf.keras.layers.Dense(
            4,
            activation="relu",
            kernel_initializer=tf.keras.initializers.Constant(0.25),
        )
        self.dense = tf.keras.layers.Dense(
            1, kernel_initializer="ones", dtype="float32"
        )

    def call(self, x):
        return self.dense(self.hidden(x))


x = np.random.RandomState(0).rand(32, 3).astype("float32")
y = x.sum(axis=1, keepdims=True) * 2.0
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)

model = Net()
optimizer = tf.keras.optimizers.Adam(lr=0.02)
loss_scale = tf.mixed_precision.experimental.DynamicLossScale(
    initial_loss_scale=2.0**10, increment_period=5
)
optimizer = mixed_precision.LossScaleOptimizer(optimizer, loss_scale)
mean_loss = tf.keras.metrics.Mean("loss")

checkpoint = tf.train.Checkpoint(
    step=tf.Variable(0, dtype=tf.int64), optimizer=optimizer, net=model
)
manager = tf.train.CheckpointManager(checkpoint, FOLDER, max_to_keep=2)
status = checkpoint.restore(manager.latest_checkpoint)
if manager.latest_checkpoint:
    print("Restored from {}".format(os.path.basename(manager.latest_checkpoint)))
else:
    print("Initializing from scratch.")
first_step = int(checkpoint.step)


@tf.function
def train_step(inputs, targets):
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        loss = tf.reduce_mean(tf.square(outputs - targets))
        scaled_loss = optimizer.get_scaled_loss(loss)
    gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(gradients)
    gradients, _ = tf.clip_by_global_norm(gradients, 5.0)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    mean_loss(loss)


losses = []
for epoch in range(EPOCHS_PER_START):
    mean_loss.reset_states()
    for inputs, targets in dataset:
        train_step(inputs, targets)
        checkpoint.step.assign_add(1)
    losses.append(float(mean_loss.result()))
    path = manager.save()
    print("Saved checkpoint for step {}".format(int(checkpoint.step)))
if first_step:
    status.assert_consumed()

slots = {
    name: float(tf.reduce_sum(optimizer.get_slot(model.dense.kernel, name)))
    for name in optimizer.get_slot_names()
}
result = {
    "first_step": first_step,
    "step": int(checkpoint.step),
    "loss": losses,
    "scale": float(optimizer.loss_scale),
    "iterations": int(optimizer.iterations),
    "checkpoints": [os.path.basename(path) for path in manager.checkpoints],
    "kernel": model.dense.kernel.numpy().ravel().tolist(),
    "slots": slots,
}
print("RESULT", json.dumps(result))
