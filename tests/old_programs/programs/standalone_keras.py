# `import keras`, not tf.keras: its mixed_precision module, and the private modules that
# programs imported from it. Written for Keras 2.13 - 2.15.
import json

import keras
import numpy as np
import tensorflow as tf
from keras import mixed_precision
from keras.mixed_precision import LossScaleOptimizer, set_global_policy
from keras.mixed_precision import Policy as DTypePolicy
from keras.src.mixed_precision import loss_scale_optimizer as lso
from keras.src.mixed_precision import policy as policy_lib

policy = DTypePolicy("mixed_float16")
set_global_policy(policy)
model = keras.Sequential(
    [
        keras.layers.Dense(4, activation="relu", kernel_initializer="ones"),
        keras.layers.Dense(1, kernel_initializer="ones", dtype="float32"),
    ]
)
optimizer = LossScaleOptimizer(keras.optimizers.Adam(0.01), initial_scale=2.0**20)
x = np.random.RandomState(0).rand(16, 3).astype("float32")


@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x, training=True) ** 2)
        scaled = optimizer.get_scaled_loss(loss)
    grads = tape.gradient(scaled, model.trainable_weights)
    grads = optimizer.get_unscaled_gradients(grads)
    optimizer.apply_gradients(zip(grads, model.trainable_weights))
    return loss


scales = []
for i in range(0, 16, 4):
    loss = train_step(tf.constant(x[i : i + 4]))
    scales.append(float(optimizer.loss_scale))
result = {
    "scales": scales,
    "loss": round(float(loss), 3),
    "iterations": int(optimizer.iterations),
    "policy": mixed_precision.global_policy().name,
    "same_policy": policy_lib.global_policy().compute_dtype,
    "is": isinstance(optimizer, lso.BaseLossScaleOptimizer),
    "keras_is": isinstance(optimizer, keras.optimizers.Optimizer),
}
print("RESULT", json.dumps(result))
