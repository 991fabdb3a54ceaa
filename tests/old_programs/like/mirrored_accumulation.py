"""A MirroredStrategy loop that accumulates gradients over four batches, and resumes."""

import json
import os

import numpy as np
import tensorflow as tf

ACCUMULATE, FOLDER = 4, "accumulation"

cpus = tf.config.experimental.list_physical_devices("CPU")
tf.config.experimental.set_virtual_device_configuration(
    cpus[0], [tf.config.experimental.VirtualDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
policy = tf.keras.mixed_precision.experimental.Policy("mixed_float16")
tf.keras.mixed_precision.experimental.set_policy(policy)

x = np.random.RandomState(2).rand(64, 3).astype("float32")
y = 3.0 * x[:, :1] - x[:, 1:2]
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
dataset = strategy.experimental_distribute_dataset(dataset)

with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(
                3,
                activation="tanh",
                input_shape=(3,),
                kernel_initializer=tf.keras.initializers.Constant(0.2),
            ),
            tf.keras.layers.Dense(1, kernel_initializer="ones", dtype=tf.float32),
        ]
    )
    optimizer = tf.keras.optimizers.RMSprop(learning_rate=0.01)
    optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(
        optimizer, loss_scale="dynamic"
    )
    accumulated = [
        tf.Variable(
            tf.zeros_like(v),
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
        for v in model.trainable_variables
    ]
    epoch = tf.Variable(0, trainable=False)
    checkpoint = tf.train.Checkpoint(optimizer=optimizer, model=model, epoch=epoch)
    manager = tf.train.CheckpointManager(checkpoint, FOLDER, max_to_keep=1)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint).expect_partial()
first_epoch = int(epoch.numpy())
first_iterations = int(optimizer.iterations.numpy())


def replica_accumulate(inputs):
    features, targets = inputs
    with tf.GradientTape() as tape:
        outputs = model(features, training=True)
        loss = tf.reduce_sum(tf.square(outputs - targets)) / (8.0 * ACCUMULATE)
        scaled_loss = optimizer.get_scaled_loss(loss)
    gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(gradients)
    for total, gradient in zip(accumulated, gradients):
        total.assign_add(gradient)
    return loss


def replica_apply():
    gradients = [total.read_value() for total in accumulated]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    for total in accumulated:
        total.assign(tf.zeros_like(total))


@tf.function
def accumulate(inputs):
    losses = strategy.run(replica_accumulate, args=(inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


@tf.function
def apply():
    strategy.run(replica_apply)


losses = []
for _ in range(3):
    total = 0.0
    for batch, inputs in enumerate(dataset):
        total += float(accumulate(inputs))
        if (batch + 1) % ACCUMULATE == 0:
            apply()
    losses.append(total)
    epoch.assign_add(1)
    manager.save()

result = {
    "first_epoch": first_epoch,
    "first_iterations": first_iterations,
    "epoch": int(epoch.numpy()),
    "loss": losses,
    "scale": float(optimizer.loss_scale),
    "iterations": int(optimizer.iterations.numpy()),
    "kernel": model.layers[0].kernel.numpy().tolist(),
    "kept": sorted(os.listdir(FOLDER)),
}
print("RESULT", json.dumps(result))
