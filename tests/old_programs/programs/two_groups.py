# A backbone with a small and a head with a large learning rate: two wrapped optimizers,
# one tape, one shared loss scale. Frozen at first. Written for TF 2.4 - 2.15.
import json

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision as mp

mp.set_global_policy("mixed_float16")
backbone = tf.keras.layers.Dense(4, kernel_initializer="ones")
head = tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32")
backbone.build((None, 3))
head.build((None, 4))
slow = mp.LossScaleOptimizer(tf.keras.optimizers.SGD(1e-3), initial_scale=512)
fast = mp.LossScaleOptimizer(tf.keras.optimizers.Adam(1e-2), initial_scale=512)


def step(x, frozen):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(head(backbone(x)) ** 2)
        scaled = fast.get_scaled_loss(loss)
    slow_vars, fast_vars = backbone.trainable_variables, head.trainable_variables
    grads = fast.get_unscaled_gradients(tape.gradient(scaled, slow_vars + fast_vars))
    if not frozen:
        slow.apply_gradients(zip(grads[: len(slow_vars)], slow_vars))
    fast.apply_gradients(zip(grads[len(slow_vars) :], fast_vars))
    return loss


data = np.random.RandomState(0).rand(6, 4, 3).astype("float32")
data[3] *= 1e6
backbone.trainable = False
frozen_step = tf.function(lambda x: step(x, True))
losses = [float(frozen_step(tf.constant(b))) for b in data[:2]]
backbone.trainable = True
full_step = tf.function(lambda x: step(x, False))
losses += [float(full_step(tf.constant(b))) for b in data[2:]]
result = {
    "losses": [round(v, 2) for i, v in enumerate(losses) if i != 3],
    "slow_scale": float(slow.loss_scale),
    "fast_scale": float(fast.loss_scale),
    "iterations": [int(slow.iterations), int(fast.iterations)],
    "bias": round(float(backbone.bias.numpy()[0]), 4),
}
print("RESULT", json.dumps(result))
