# MirroredStrategy and fit() under an experimental policy with a dynamic loss scale, an
# overflow in one batch. Written for TF 2.2 - 2.3.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as prec

cpus = tf.config.experimental.list_physical_devices("CPU")
tf.config.experimental.set_virtual_device_configuration(
    cpus[0], [tf.config.experimental.VirtualDeviceConfiguration()] * 2
)
scale = tf.mixed_precision.experimental.DynamicLossScale(
    initial_loss_scale=128, increment_period=3
)
prec.set_policy(prec.Policy("mixed_float16", loss_scale=scale))
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(4, kernel_initializer="ones", input_shape=(2,)),
            tf.keras.layers.Dense(1, kernel_initializer="ones", dtype=tf.float32),
        ]
    )
    model.compile(tf.keras.optimizers.SGD(0.01), loss="mse")
x = np.random.RandomState(0).rand(24, 2).astype("float32")
x[9] *= 1e6
y = x.sum(1, keepdims=True) * 0
model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)
first = float(model.optimizer.loss_scale())
x[9] = 0
h = model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)
result = {
    "scale": [first, float(model.optimizer.loss_scale())],
    "iterations": int(model.optimizer.iterations.numpy()),
    "loss": round(h.history["loss"][0], 3),
    "replicas": strategy.num_replicas_in_sync,
}
print("RESULT", json.dumps(result))
