# history["lr"], as LearningRateScheduler wrote it, beside the loss scale.
# Written for TF 2.4 - 2.15.
import json

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")
model = tf.keras.Sequential([tf.keras.layers.Dense(1, dtype="float32")])
model.compile(optimizer=tf.keras.optimizers.SGD(0.5), loss="mse")


class Log(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        logs["loss_scale"] = float(self.model.optimizer.loss_scale)


x = np.zeros((8, 2), "float32")
h = model.fit(
    x,
    x[:, :1],
    epochs=3,
    verbose=0,
    callbacks=[
        tf.keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.5),
        Log(),
    ],
)
result = {
    "lr": [round(float(v), 5) for v in h.history["lr"]],
    "scale": h.history["loss_scale"],
}
print("RESULT", json.dumps(result))
