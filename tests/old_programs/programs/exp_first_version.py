# The API as it came: TF 2.1, with its policy "infer" by default, LossScaleOptimizer
# around "sgd" by compile, tf.train.experimental. Written for TF 2.1 - 2.3.
import json

import numpy as np
import tensorflow as tf

assert tf.executing_eagerly()
scale = tf.train.experimental.DynamicLossScale(
    initial_loss_scale=2.0**4, increment_period=2, multiplier=2
)
tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
policy = tf.keras.mixed_precision.experimental.global_policy()
model = tf.keras.models.Sequential()
model.add(tf.keras.layers.Dense(3, input_shape=(2,), kernel_initializer="ones"))
model.add(tf.keras.layers.Activation("relu"))
model.add(tf.keras.layers.Dense(1, kernel_initializer="ones"))
model.add(tf.keras.layers.Activation("linear", dtype="float32"))
optimizer = tf.keras.optimizers.SGD(1e-3, momentum=0.5)
optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(
    optimizer, loss_scale=scale
)
model.compile(loss="mse", optimizer=optimizer)
x = np.random.RandomState(1).rand(12, 2).astype("float32")
for _ in range(2):
    for i in range(0, 12, 4):
        loss = model.train_on_batch(x[i : i + 4], x[i : i + 4, :1])
tf.keras.mixed_precision.experimental.set_policy("infer")
result = {
    "policy": [policy.name, policy.compute_dtype, policy.should_cast_variables],
    "scale": float(scale()),
    "same": model.optimizer.loss_scale is scale,
    "loss": round(float(loss), 1),
    "iterations": int(model.optimizer.iterations),
    "dtype": tf.keras.layers.Dense(1)(tf.ones((1, 1))).dtype.name,
}
print("RESULT", json.dumps(result))
