# `fit` as most code bases have it: ModelCheckpoint, ReduceLROnPlateau, EarlyStopping, class
# weights, metrics by name, the best weights in an .h5 file. Written for TF 2.4 - 2.10.
import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import backend as K
from tensorflow.keras.callbacks import EarlyStopping, ModelCheckpoint, ReduceLROnPlateau
from tensorflow.keras.mixed_precision import set_global_policy

set_global_policy("mixed_float16")
folder = tempfile.mkdtemp()
random = np.random.RandomState(6)
x = random.rand(64, 5).astype("float32")
y = (x.sum(1) > 2.7).astype("float32")

model = tf.keras.models.Sequential()
model.add(tf.keras.layers.Dense(8, activation="relu", input_shape=(5,)))
model.add(tf.keras.layers.Dense(1))
model.add(tf.keras.layers.Activation("sigmoid", dtype="float32"))
model.set_weights(
    [
        np.abs(random.normal(0, 0.4, w.shape)).astype("float32")
        for w in model.get_weights()
    ]
)
model.compile(
    optimizer=tf.keras.optimizers.Adam(lr=0.05, decay=1e-3),
    loss="binary_crossentropy",
    metrics=["accuracy"],
)
best = os.path.join(folder, "best.h5")
history = model.fit(
    x[:48],
    y[:48],
    batch_size=12,
    epochs=8,
    shuffle=False,
    verbose=0,
    class_weight={0: 1.0, 1: 2.0},
    validation_data=(x[48:], y[48:]),
    callbacks=[
        ModelCheckpoint(best, save_best_only=True, save_weights_only=True),
        ReduceLROnPlateau(factor=0.5, patience=1, min_delta=0.05),
        EarlyStopping(patience=5, restore_best_weights=True),
    ],
)
model.load_weights(best)
scores = dict(zip(model.metrics_names, model.evaluate(x[48:], y[48:], verbose=0)))
rates = [round(float(rate), 5) for rate in history.history["lr"]]
result = {
    "epochs": len(history.epoch),
    "loss": [round(float(loss), 3) for loss in history.history["loss"]],
    "rates": rates,
    "rate": round(float(K.get_value(model.optimizer.lr)), 5),
    "scores": sorted(scores),
    "best": round(float(min(history.history["val_loss"])), 3),
    "val loss": round(float(scores["loss"]), 3),
    "scale": float(model.optimizer.loss_scale),
    "iterations": int(model.optimizer.iterations),
}
print("RESULT", json.dumps(result))
