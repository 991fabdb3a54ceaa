# The option auto_mixed_precision of Grappler, with a LossScaleOptimizer by hand: what
# NVIDIA's examples did. Written for TF 2.4 - 2.15.
import json
import os

os.environ["TF_ENABLE_AUTO_MIXED_PRECISION"] = "1"
import numpy as np
import tensorflow as tf

tf.config.optimizer.set_experimental_options({"auto_mixed_precision": True})
tf.config.run_functions_eagerly(False)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones")])
optimizer = tf.keras.optimizers.Adam(learning_rate=0.01, amsgrad=True)
optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer, dynamic=True)


@tf.function
def training_step(x, y, first_batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(x, training=True) - y))
        scaled_loss = optimizer.get_scaled_loss(loss)
    gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    if first_batch:
        tf.print("variables", len(model.variables), len(optimizer.variables()))
    return loss


x = np.random.RandomState(0).rand(4, 8, 2).astype("float32")
losses = [
    round(float(training_step(b, tf.zeros((8, 1)), i == 0)), 3) for i, b in enumerate(x)
]
result = {
    "losses": losses,
    "scale": float(optimizer.loss_scale),
    "iterations": int(optimizer.iterations),
    "weights": np.round(model.get_weights()[0].ravel(), 4).tolist(),
    "amsgrad": optimizer.inner_optimizer.amsgrad,
}
print("RESULT", json.dumps(result))
