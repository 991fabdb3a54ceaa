# fit() with the callbacks of an old training script: best weights as .h5, CSVLogger,
# TensorBoard, EarlyStopping, warmup by LearningRateScheduler, CosineDecay by K.set_value.
# Written for TF 2.4 - 2.10.
import csv
import json
import math
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import backend as K
from tensorflow.keras import callbacks as cb

tf.keras.mixed_precision.set_global_policy("mixed_float16")
folder = tempfile.mkdtemp()


class Cosine(cb.Callback):
    def __init__(self, peak, steps):
        super().__init__()
        self.peak, self.steps, self.step = peak, steps, 0
        self.lrs = []

    def on_batch_begin(self, batch, logs=None):
        self.step += 1
        lr = 0.5 * self.peak * (1 + math.cos(math.pi * self.step / self.steps))
        K.set_value(self.model.optimizer.lr, lr)

    def on_batch_end(self, batch, logs=None):
        self.lrs.append(round(float(K.get_value(self.model.optimizer.lr)), 5))


model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(4, activation="relu", kernel_initializer="ones"),
        tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32"),
    ]
)
model.compile(optimizer=tf.keras.optimizers.SGD(0.1, clipnorm=1.0), loss="mae")
x = np.random.RandomState(0).rand(16, 3).astype("float32")
cosine = Cosine(0.01, 8)
best = os.path.join(folder, "best.weights.h5")
table = os.path.join(folder, "log.csv")
h = model.fit(
    x,
    x.sum(1, keepdims=True),
    validation_data=(x, x.sum(1, keepdims=True)),
    batch_size=4,
    epochs=2,
    shuffle=False,
    verbose=0,
    callbacks=[
        cosine,
        cb.CSVLogger(table),
        cb.ModelCheckpoint(best, save_best_only=True, save_weights_only=True),
        cb.EarlyStopping(patience=3, restore_best_weights=True),
        cb.TensorBoard(os.path.join(folder, "tb"), profile_batch=0),
        cb.TerminateOnNaN(),
    ],
)
model.load_weights(best)
with open(table) as f:
    rows = list(csv.DictReader(f))
result = {
    "lrs": cosine.lrs,
    "val_loss": round(h.history["val_loss"][-1], 3),
    "loaded": round(model.evaluate(x, x.sum(1, keepdims=True), verbose=0), 3),
    "rows": len(rows),
    "scale": float(model.optimizer.loss_scale),
    "iterations": int(model.optimizer.iterations),
    "clipnorm": model.optimizer.inner_optimizer.clipnorm,
}
print("RESULT", json.dumps(result))
