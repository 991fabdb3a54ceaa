# A keras.Model whose train_step scales by hand where the optimizer is a
# LossScaleOptimizer, and not where it is none. Written for TF 2.4 - 2.15.
import json
import sys

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision


class Clipped(tf.keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = tf.reduce_mean(tf.square(tf.cast(y_pred, tf.float32) - y))
            if isinstance(self.optimizer, mixed_precision.LossScaleOptimizer):
                loss_to_use = self.optimizer.get_scaled_loss(loss)
            else:
                loss_to_use = loss
        grads = tape.gradient(loss_to_use, self.trainable_variables)
        if isinstance(self.optimizer, mixed_precision.LossScaleOptimizer):
            grads = self.optimizer.get_unscaled_gradients(grads)
        grads, norm = tf.clip_by_global_norm(grads, 0.5)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        return {"loss": loss, "norm": norm}


policy = sys.argv[1] if len(sys.argv) > 1 else "mixed_float16"
mixed_precision.set_global_policy(policy)
inputs = tf.keras.Input((3,))
hidden = tf.keras.layers.Dense(4, kernel_initializer="ones")(inputs)
outputs = tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32")(hidden)
model = Clipped(inputs, outputs)
model.compile(optimizer=tf.keras.optimizers.SGD(0.1, momentum=0.9))
x = np.random.RandomState(0).rand(32, 3).astype("float32")
x[8:16] *= 3e4
y = np.zeros((32, 1), "float32")
history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
kernel = model.layers[1].kernel.numpy()
opt = model.optimizer
result = {
    "policy": policy,
    "scaled": isinstance(opt, mixed_precision.LossScaleOptimizer),
    "scale": float(opt.loss_scale) if hasattr(opt, "loss_scale") else None,
    "iterations": int(opt.iterations.numpy()),
    "kernel": [round(float(k), 4) for k in kernel[0]],
}
print("RESULT", json.dumps(result))
