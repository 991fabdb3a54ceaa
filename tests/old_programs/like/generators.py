"""`fit_generator` and its friends, ModelCheckpoint with `period`, TensorBoard."""

import glob
import json

import numpy as np
import tensorflow as tf
from tensorflow.keras.callbacks import (
    CSVLogger,
    LambdaCallback,
    ModelCheckpoint,
    TensorBoard,
    TerminateOnNaN,
)

tf.keras.mixed_precision.experimental.set_policy(
    tf.keras.mixed_precision.experimental.Policy("mixed_float16", loss_scale=1024.0)
)


class Data(tf.keras.utils.Sequence):
    def __init__(self, n):
        self.x = np.random.RandomState(n).rand(32, 4).astype("float32")

    def __len__(self):
        return 4

    def __getitem__(self, i):
        b = self.x[i * 8 : i * 8 + 8]
        return b, b.sum(1, keepdims=True)

    def on_epoch_end(self):
        pass


model = tf.keras.models.Sequential()
model.add(tf.keras.layers.Dense(4, input_dim=4, kernel_initializer="ones"))
model.add(tf.keras.layers.Activation("relu"))
model.add(tf.keras.layers.Dropout(0.0))
model.add(tf.keras.layers.Dense(1, dtype="float32", kernel_initializer="ones"))
model.compile(
    tf.keras.optimizers.SGD(lr=1e-3, momentum=0.9, decay=1e-4),
    loss=tf.keras.losses.Huber(),
    metrics=[tf.keras.metrics.MeanAbsoluteError(name="mae")],
)
ends = []
cb = [
    ModelCheckpoint(
        "w.{epoch:02d}-{val_loss:.2f}.h5", period=2, save_weights_only=True
    ),
    TensorBoard(
        "logs",
        histogram_freq=1,
        write_graph=True,
        write_images=True,
        update_freq="epoch",
        profile_batch=0,
        embeddings_freq=0,
    ),
    LambdaCallback(on_epoch_end=lambda e, logs: ends.append(sorted(logs))),
    TerminateOnNaN(),
    CSVLogger("log.csv"),
]
h = model.fit_generator(
    Data(0),
    steps_per_epoch=4,
    epochs=4,
    validation_data=Data(1),
    validation_steps=4,
    callbacks=cb,
    verbose=2,
    workers=2,
    max_queue_size=4,
    use_multiprocessing=False,
    shuffle=False,
)
ev = model.evaluate_generator(Data(1), steps=4)
pr = model.predict_generator(Data(1), steps=4, verbose=0)


def plain():
    d = Data(2)
    while True:
        for i in range(4):
            yield d[i]


h2 = model.fit(plain(), steps_per_epoch=4, epochs=1, verbose=0)
print(
    "RESULT",
    json.dumps(
        {
            "loss": h.history["loss"],
            "mae": h.history["val_mae"],
            "evaluated": [float(v) for v in ev],
            "predicted": float(pr.mean()),
            "files": len(glob.glob("w.*.h5")),
            "events": len(glob.glob("logs/*/events*")),
            "ends": ends[-1],
            "scale": float(model.optimizer.loss_scale),
            "second": h2.history["loss"],
            "lr": float(tf.keras.backend.get_value(model.optimizer.lr)),
            "log": open("log.csv").readline().strip(),
        }
    ),
)
