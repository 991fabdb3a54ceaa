# fit() under mixed_float16 with an optimizer that was wrapped by hand; two batches
# overflow, and a callback counts the steps that were skipped. Written for TF 2.4 - 2.15.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import LossScaleOptimizer, set_global_policy

set_global_policy("mixed_float16")


class ScaleMonitor(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.scales = []
        self.skipped = 0

    def on_train_begin(self, logs=None):
        self.last = self.model.get_weights()

    def on_train_batch_end(self, batch, logs=None):
        self.scales.append(float(self.model.optimizer.loss_scale))
        now = self.model.get_weights()
        self.skipped += all((a == b).all() for a, b in zip(self.last, now))
        self.last = now


model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(4, input_shape=(3,), kernel_initializer="ones"),
        tf.keras.layers.Dense(1, kernel_initializer="ones"),
        tf.keras.layers.Activation("linear", dtype="float32"),
    ]
)
optimizer = LossScaleOptimizer(
    tf.keras.optimizers.Adam(0.01), initial_scale=512, dynamic_growth_steps=3
)
model.compile(optimizer, loss="mse")
assert model.optimizer is optimizer
x = np.random.RandomState(2).rand(40, 3).astype("float32")
x[12:16] *= 1e5
y = x.mean(1, keepdims=True)
monitor = ScaleMonitor()
model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=[monitor])
loss = model.evaluate(x[:12], y[:12], batch_size=4, verbose=0)
result = {
    "scales": monitor.scales,
    "skipped": monitor.skipped,
    "iterations": int(optimizer.iterations),
    "counter": int(optimizer.dynamic_counter),
    "loss": round(loss, 3),
}
print("RESULT", json.dumps(result))
