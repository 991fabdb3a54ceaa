# Optimizer state from one process's pickle to the next: _create_all_weights or _create_slots
# before set_weights, and numpy files. Written for TF 2.4 - 2.10.
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

LSO = tf.keras.mixed_precision.LossScaleOptimizer
path = os.path.join(tempfile.mkdtemp(), "optimizer.npy")


def model_and_optimizer():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, kernel_initializer="ones")])
    model.build((None, 3))
    return model, LSO(tf.keras.optimizers.Adam(0.1), initial_scale=4.0)


def train(model, opt, steps):
    x = tf.constant([[1.0, 2.0, 3.0]])
    for _ in range(steps):
        with tf.GradientTape() as tape:
            scaled = opt.get_scaled_loss(tf.reduce_sum(model(x) ** 2))
        grads = tape.gradient(scaled, model.trainable_variables)
        grads = opt.get_unscaled_gradients(grads)
        opt.apply_gradients(zip(grads, model.trainable_variables))


def save_optimizer_state(optimizer, save_path):
    np.save(save_path, np.array(optimizer.get_weights(), dtype=object))


def load_optimizer_state(optimizer, load_path, model_train_vars):
    opt_weights = np.load(load_path, allow_pickle=True)
    zero_grads = [tf.zeros_like(w) for w in model_train_vars]
    saved_vars = [tf.identity(w) for w in model_train_vars]
    # Apply gradients which don't do anything, to build the state.
    optimizer.apply_gradients(zip(zero_grads, model_train_vars))
    [x.assign(y) for x, y in zip(model_train_vars, saved_vars)]
    optimizer.set_weights(list(opt_weights))


first, opt = model_and_optimizer()
train(first, opt, 3)
save_optimizer_state(opt, path)
weights = first.get_weights()
train(first, opt, 2)

second, other = model_and_optimizer()
second.set_weights(weights)
load_optimizer_state(other, path, second.trainable_variables)
train(second, other, 2)

third, inner = model_and_optimizer()
third.set_weights(weights)
inner.inner_optimizer._create_all_weights(third.trainable_variables)
built = len(inner.inner_optimizer.get_weights())
result = {
    "same": bool(np.allclose(first.get_weights()[0], second.get_weights()[0], 1e-5)),
    "iterations": [int(opt.iterations), int(other.iterations)],
    "kernel": np.round(second.get_weights()[0][0], 3).tolist(),
    "built": built >= 5,
}
print("RESULT", json.dumps(result))
