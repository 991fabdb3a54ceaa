# A custom loop over a distributed dataset whose last batch has fewer rows than the others,
# and none for the second replica. Written for TF 2.3 - 2.10.
import json

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
tf.keras.mixed_precision.set_global_policy("mixed_float16")
GLOBAL_BATCH = 8
random = np.random.RandomState(8)
x = random.rand(27, 4).astype("float32")  # 8 + 8 + 8 + 3
y = x.sum(1, keepdims=True)
x[13] = 5e4  # the second replica overflows in the second batch

with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(5, activation="relu", input_shape=(4,)),
            tf.keras.layers.Dense(1, dtype="float32"),
        ]
    )
    model.set_weights(
        [
            np.abs(random.normal(0, 0.4, w.shape)).astype("float32")
            for w in model.get_weights()
        ]
    )
    optimizer = tf.keras.optimizers.Adagrad(0.3, epsilon=1e-5)
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
        optimizer, initial_scale=512.0, dynamic_growth_steps=3
    )
    loss_object = tf.keras.losses.MeanSquaredError(
        reduction=tf.keras.losses.Reduction.NONE
    )
    error = tf.keras.metrics.MeanAbsoluteError()


def replica_step(inputs):
    rows, targets = inputs
    with tf.GradientTape() as tape:
        predictions = model(rows, training=True)
        each = loss_object(targets, predictions)
        loss = tf.nn.compute_average_loss(each, global_batch_size=GLOBAL_BATCH)
        scaled = optimizer.get_scaled_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    error.update_state(targets, predictions)
    return loss


@tf.function
def train_step(inputs):
    losses = strategy.run(replica_step, args=(inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


data = tf.data.Dataset.from_tensor_slices((x, y)).batch(GLOBAL_BATCH)
data = strategy.experimental_distribute_dataset(data)
losses, scales = [], []
for _ in range(3):
    for batch in data:
        loss = float(train_step(batch))
        losses.append(round(loss, 3) if np.isfinite(loss) else None)
        scales.append(float(optimizer.loss_scale))

result = {
    "loss": losses[:1] + losses[-2:],
    "scale": scales,
    "iterations": int(optimizer.iterations.numpy()),
    "norms": [round(float(np.linalg.norm(w)), 3) for w in model.get_weights()],
}
print("RESULT", json.dumps(result))
