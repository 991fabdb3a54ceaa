# Learning rates by K.get_value and K.set_value, by the callback of a tutorial, and by
# plain assignment, on a wrapped optimizer and inside it. Written for TF 2.4 - 2.10.
import json

import numpy as np
import tensorflow as tf
import tensorflow.keras.backend as K

tf.keras.mixed_precision.set_global_policy("mixed_float16")


class LRFinder(tf.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.lrs = []
        K.set_value(self.model.optimizer.lr, 1e-4)

    def on_train_batch_end(self, batch, logs=None):
        lr = float(K.get_value(self.model.optimizer.lr))
        self.lrs.append(round(lr, 7))
        K.set_value(self.model.optimizer.learning_rate, lr * 2)

    def on_train_end(self, logs=None):
        K.set_value(self.model.optimizer.inner_optimizer.lr, 0.5)


model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_dim=2, dtype="float32")])
model.compile(optimizer="sgd", loss="mean_squared_error")
finder = LRFinder()
x = np.ones((16, 2), "float32")
model.fit(x, x[:, :1], batch_size=4, epochs=1, verbose=0, callbacks=[finder])
opt = model.optimizer
seen = [float(K.get_value(opt.lr)), float(K.get_value(opt.learning_rate))]
opt.learning_rate = 0.25
seen.append(float(opt.lr.numpy()))
opt.lr = 0.125
seen.append(float(opt.inner_optimizer.learning_rate.numpy()))
opt.learning_rate.assign(0.75)
seen.append(float(K.eval(opt.lr)))
opt.momentum = 0.5
K.set_value(opt.iterations, 7)
result = {
    "lrs": finder.lrs,
    "seen": seen,
    "momentum": float(opt.inner_optimizer.momentum),
    "iterations": int(K.get_value(opt.iterations)),
    "scale": float(K.get_value(opt.loss_scale)),
}
print("RESULT", json.dumps(result))
