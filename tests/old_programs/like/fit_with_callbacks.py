"""`fit` with the usual callbacks; a second start loads the whole model and goes on."""

import csv
import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.keras import backend as K
from tensorflow.keras import layers
from tensorflow.keras.callbacks import (
    CSVLogger,
    EarlyStopping,
    LearningRateScheduler,
    ModelCheckpoint,
    ReduceLROnPlateau,
)
from tensorflow.keras.mixed_precision import experimental as mixed_precision

MODEL, LOG, EPOCHS_PER_START = "model.h5", "log.csv", 3

policy = mixed_precision.Policy("mixed_float16", loss_scale=128)
mixed_precision.set_policy(policy)


def build_model():
    inputs = layers.Input(shape=(3,), name="features")
    net = layers.Dense(4, kernel_initializer=tf.keras.initializers.Constant(0.3))(
        inputs
    )
    net = layers.BatchNormalization()(net)
    net = layers.LeakyReLU(alpha=0.1)(net)
    net = layers.Dense(1, kernel_initializer="ones")(net)
    outputs = layers.Activation("linear", dtype="float32")(net)
    model = tf.keras.Model(inputs=inputs, outputs=outputs)
    optimizer = tf.keras.optimizers.SGD(
        lr=0.05, momentum=0.9, decay=1e-2, nesterov=True
    )
    model.compile(optimizer=optimizer, loss="mse", metrics=["mae"])
    return model


class ChangeRate(tf.keras.callbacks.Callback):
    """What people wrote before they knew LearningRateScheduler."""

    def on_epoch_begin(self, epoch, logs=None):
        rates.append(float(K.get_value(self.model.optimizer.lr)))
        if epoch == 4:
            K.set_value(self.model.optimizer.lr, 0.01)


def schedule(epoch, lr):
    return lr if epoch % 2 else lr * 0.8


x = np.random.RandomState(1).rand(32, 3).astype("float32")
y = x.sum(axis=1, keepdims=True)
rates = []

if os.path.exists(MODEL):
    model = tf.keras.models.load_model(MODEL)
    with open(LOG) as file:
        first_epoch = len(list(csv.DictReader(file)))
else:
    model, first_epoch = build_model(), 0
first_iterations = int(model.optimizer.iterations)

callbacks = [
    ModelCheckpoint(MODEL, save_best_only=False, save_weights_only=False, verbose=0),
    ReduceLROnPlateau(
        monitor="loss", factor=0.5, patience=1, min_delta=10.0, min_lr=1e-4
    ),
    LearningRateScheduler(schedule, verbose=0),
    EarlyStopping(monitor="val_loss", patience=10),
    CSVLogger(LOG, append=True),
    ChangeRate(),
]
history = model.fit(
    x,
    y,
    batch_size=8,
    epochs=first_epoch + EPOCHS_PER_START,
    initial_epoch=first_epoch,
    validation_data=(x, y),
    shuffle=False,
    callbacks=callbacks,
    verbose=0,
)

optimizer = model.optimizer
result = {
    "first_epoch": first_epoch,
    "first_iterations": first_iterations,
    "epochs": history.epoch,
    "history": {key: list(map(float, value)) for key, value in history.history.items()},
    "rates": rates,
    "scale": float(optimizer.loss_scale),
    "iterations": int(optimizer.iterations),
    "weights": [float(np.sum(w)) for w in model.get_weights()],
    "slots": [float(np.sum(w)) for w in optimizer.get_weights()][1:],
}
print("RESULT", json.dumps(result))
