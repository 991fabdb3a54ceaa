# The same in the format .keras: what the optimizer was, and where it goes on.
# Written for TF 2.13 - 2.15.
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")
inputs = tf.keras.Input((3,))
outputs = tf.keras.layers.Dense(1, dtype="float32", kernel_initializer="ones")(
    tf.keras.layers.Dense(4, activation="relu", kernel_initializer="ones")(inputs)
)
model = tf.keras.Model(inputs, outputs)
model.compile(
    tf.keras.mixed_precision.LossScaleOptimizer(
        tf.keras.optimizers.SGD(0.01, momentum=0.5),
        initial_scale=1024,
        dynamic_growth_steps=3,
    ),
    loss="mse",
)
x = np.random.RandomState(0).rand(16, 3).astype("float32")
y = np.zeros((16, 1), "float32")
model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
path = os.path.join(tempfile.mkdtemp(), "model.keras")
model.save(path)
loaded = tf.keras.models.load_model(path)
before = float(model.optimizer.loss_scale)
losses = [
    m.fit(x, y, batch_size=4, shuffle=False, verbose=0).history["loss"][0]
    for m in (model, loaded)
]
result = {
    "inner": type(loaded.optimizer.inner_optimizer).__name__,
    "growth_steps": loaded.optimizer.dynamic_growth_steps,
    "initial_scale": loaded.optimizer.initial_scale,
    "iterations": [int(m.optimizer.iterations) for m in (model, loaded)],
    "losses": [round(v, 4) for v in losses],
    "scale": before,
    "momentum": float(loaded.optimizer.inner_optimizer.momentum),
}
print("RESULT", json.dumps(result))
