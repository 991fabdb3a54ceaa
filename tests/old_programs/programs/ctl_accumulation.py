# Gradients of three micro-batches are added up before one clipped Adam step. One
# micro-batch overflows float16. Written for TF 2.4 - 2.10.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

ACCUMULATE = 3
tf.keras.mixed_precision.set_global_policy("mixed_float16")
model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(4, activation="relu", kernel_initializer="ones"),
        tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32"),
    ]
)
model.build((None, 3))
optimizer = tf.keras.optimizers.Adam(0.01)
optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
    optimizer, initial_scale=2**10, dynamic_growth_steps=2
)
accumulated = [
    tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables
]


@tf.function
def micro_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y)) / ACCUMULATE
        scaled_loss = optimizer.get_scaled_loss(loss)
    scaled_grads = tape.gradient(scaled_loss, model.trainable_variables)
    for a, g in zip(accumulated, optimizer.get_unscaled_gradients(scaled_grads)):
        a.assign_add(g)
    return loss


@tf.function
def apply_step():
    grads, norm = tf.clip_by_global_norm([a.read_value() for a in accumulated], 1.0)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    for a in accumulated:
        a.assign(tf.zeros_like(a))
    return norm


rng = np.random.RandomState(1)
scales, losses, counters = [], [], []
for step in range(5):
    total = 0.0
    for micro in range(ACCUMULATE):
        x = rng.rand(4, 3).astype("float32")
        if (step, micro) == (2, 1):
            x *= 1e5
        total += float(micro_step(tf.constant(x), tf.ones((4, 1))))
    apply_step()
    losses.append(round(total, 4) if np.isfinite(total) else "overflow")
    scales.append(float(optimizer.loss_scale))
    counters.append(int(optimizer.dynamic_counter))
result = {
    "losses": losses,
    "scale": scales,
    "counter": counters,
    "iterations": int(optimizer.iterations),
    "bias": np.round(model.layers[1].bias.numpy(), 5).tolist(),
}
print("RESULT", json.dumps(result))
