# model.save(folder), the default format of its time, after compile under mixed_float16.
# Written for TF 2.4 - 2.10.
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")
model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(
            1, input_shape=(3,), dtype="float32", kernel_initializer="ones"
        )
    ]
)
model.compile("sgd", "mse")
x = np.random.RandomState(0).rand(8, 3).astype("float32")
model.fit(x, x[:, :1], batch_size=4, shuffle=False, verbose=0)
folder = os.path.join(tempfile.mkdtemp(), "saved")
model.save(folder)
loaded = tf.keras.models.load_model(folder)
result = {
    "same": bool(
        np.allclose(model.predict(x, verbose=0), loaded.predict(x, verbose=0))
    ),
    "scale": float(loaded.optimizer.loss_scale),
    "iterations": int(loaded.optimizer.iterations),
}
print("RESULT", json.dumps(result))
