# Adam(lr=...), SGD(lr=..., decay=..., momentum=...), opt.lr and opt.decay through the
# wrapper and below it, and ReduceLROnPlateau. Written for TF 2.0 - 2.3.
import json

import numpy as np
import tensorflow as tf
from tensorflow.keras import backend as K
from tensorflow.keras.callbacks import (
    LambdaCallback,
    LearningRateScheduler,
    ReduceLROnPlateau,
)
from tensorflow.keras.mixed_precision import experimental as mp
from tensorflow.keras.optimizers import SGD, Adam

adam = mp.LossScaleOptimizer(Adam(lr=1e-3, epsilon=1e-8), "dynamic")
sgd = mp.LossScaleOptimizer(SGD(lr=0.5, decay=1.0, momentum=0.0), 128)
v = tf.Variable(0.0)
path = []
for _ in range(3):
    sgd.apply_gradients([(tf.constant(1.0), v)])
    path.append(round(float(v), 4))
read = [float(K.get_value(adam.lr)), float(K.get_value(adam._optimizer.lr))]
adam.lr = 0.01
read.append(float(adam.learning_rate))

mp.set_policy("mixed_float16")
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_dim=2, dtype="float32")])
model.compile(SGD(lr=0.25, decay=1e-6, momentum=0.9, nesterov=True), "mse")
x = np.zeros((8, 2), "float32")
history = []


def log_lr(epoch, logs):
    history.append(round(float(K.get_value(model.optimizer.lr)), 6))


callbacks = [
    LearningRateScheduler(lambda epoch, lr: lr * 0.5),
    ReduceLROnPlateau(monitor="loss", factor=0.1, patience=1, min_delta=1e9),
    LambdaCallback(on_epoch_begin=log_lr),
]
model.fit(x, x[:, :1], epochs=3, verbose=0, callbacks=callbacks)
result = {
    "path": path,
    "adam_lr": [round(r, 5) for r in read],
    "history_lr": history,
    "momentum": float(model.optimizer._optimizer.momentum),
    "iterations": int(sgd.iterations),
}
print("RESULT", json.dumps(result))
