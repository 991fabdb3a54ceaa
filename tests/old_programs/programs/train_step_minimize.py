# train_step of the guides of TF 2.2 - 2.10: compiled_loss, optimizer.minimize with the
# tape, compiled_metrics. Written for TF 2.4 - 2.10.
import json

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(4, kernel_initializer="ones")
        self.head = tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32")

    def call(self, x, training=False):
        return self.head(tf.nn.relu(self.hidden(x)))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compiled_loss(y, y_pred, regularization_losses=self.losses)
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        self.compiled_metrics.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


model = Model()
model.compile("adam", loss="mse", metrics=["mae"])
x = np.random.RandomState(0).rand(16, 3).astype("float32")
y = x.sum(1, keepdims=True)
model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
loss, mae = model.evaluate(x, y, batch_size=4, verbose=0)
result = {
    "loss": round(loss, 3),
    "mae": round(mae, 3),
    "scale": float(model.optimizer.loss_scale.numpy()),
    "iterations": int(model.optimizer.iterations),
    "type": type(model.optimizer).__name__,
}
print("RESULT", json.dumps(result))
