# A train step compiled by XLA with a LossScaleOptimizer inside, with a float16 overflow;
# and while_loop over steps on the device. Written for TF 2.4 - 2.15.
import json

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")
dense = tf.keras.layers.Dense(2, kernel_initializer="ones")
dense.build((None, 3))
opt = tf.keras.mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.SGD(0.0625, momentum=0.5),
    initial_scale=256,
    dynamic_growth_steps=2,
)


def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.cast(dense(x), tf.float32) ** 2)
        scaled = opt.get_scaled_loss(loss)
    grads = tape.gradient(scaled, dense.trainable_variables)
    grads = opt.get_unscaled_gradients(grads)
    opt.apply_gradients(zip(grads, dense.trainable_variables))
    return loss


compiled = tf.function(step, jit_compile=True)


@tf.function(input_signature=[tf.TensorSpec([None, 4, 3], tf.float32)])
def many(batches):
    last = tf.constant(0.0)
    for batch in batches:
        last = step(batch)
    return last


data = np.random.RandomState(0).rand(6, 4, 3).astype("float32")
data[2] *= 1e6
scales = []
for batch in data[:4]:
    compiled(tf.constant(batch))
    scales.append(float(opt.loss_scale))
loss = many(data[2:])
result = {
    "scales": scales,
    "end_scale": float(opt.loss_scale),
    "counter": int(opt.dynamic_counter),
    "iterations": int(opt.iterations),
    "loss": round(float(loss), 3),
}
print("RESULT", json.dumps(result))
