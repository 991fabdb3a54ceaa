# A model compiled under mixed_float16 is saved as .h5 in the middle of training and
# loaded, with and without custom_objects; with `names`, its loss and a metric are given
# by their short names. Written for TF 2.4 - 2.10.
import json
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision

mixed_precision.set_global_policy("mixed_float16")
model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(4, input_shape=(3,), kernel_initializer="ones"),
        tf.keras.layers.Dense(1, dtype="float32", kernel_initializer="ones"),
    ]
)
if sys.argv[1:] == ["names"]:
    model.compile(tf.keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
else:
    loss = tf.keras.losses.MeanSquaredError()
    model.compile(tf.keras.optimizers.Adam(0.01), loss=loss)
x = 0.05 * np.random.RandomState(0).rand(16, 3).astype("float32")
y = np.zeros((16, 1), "float32")
fit = dict(batch_size=4, epochs=1, shuffle=False, verbose=0)
model.fit(x, y, **fit)
path = os.path.join(tempfile.mkdtemp(), "model.h5")
model.save(path)
first = tf.keras.models.load_model(path)
second = tf.keras.models.load_model(
    path, custom_objects={"LossScaleOptimizer": mixed_precision.LossScaleOptimizer}
)
going_on = model.fit(x, y, **fit).history["loss"][0]
loaded = first.fit(x, y, **fit).history["loss"][0]
result = {
    "types": [type(m.optimizer).__name__ for m in (model, first, second)],
    "inner": type(second.optimizer.inner_optimizer).__name__,
    "is_scaled": isinstance(first.optimizer, mixed_precision.LossScaleOptimizer),
    "policy": first.layers[0].dtype_policy.name
    if hasattr(first.layers[0], "dtype_policy")
    else first.layers[0]._dtype_policy.name,
    "iterations": [int(m.optimizer.iterations) for m in (model, first, second)],
    "loss": [round(going_on, 4), round(loaded, 4)],
    "lr": round(float(tf.keras.backend.get_value(second.optimizer.lr)), 5),
}
print("RESULT", json.dumps(result))
