# A .h5 of a model with an experimental LossScaleOptimizer, loaded with custom_objects;
# and the configs of optimizer, loss scale and policy. Written for TF 2.1 - 2.3.
import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mixed_precision
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer

mixed_precision.set_policy("mixed_float16")
model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(2, input_shape=(3,), kernel_initializer="ones"),
        tf.keras.layers.Dense(1, dtype="float32", kernel_initializer="ones"),
    ]
)
scale = tf.mixed_precision.experimental.DynamicLossScale(
    initial_loss_scale=2**7, increment_period=50
)
opt = LossScaleOptimizer(tf.keras.optimizers.Adam(0.01), scale)
model.compile(opt, loss=tf.keras.losses.MeanSquaredError())
x = np.random.RandomState(0).rand(8, 3).astype("float32")
model.fit(x, x[:, :1], batch_size=4, shuffle=False, verbose=0)
path = os.path.join(tempfile.mkdtemp(), "model.h5")
model.save(path)
loaded = tf.keras.models.load_model(
    path, custom_objects={"LossScaleOptimizer": LossScaleOptimizer}
)
losses = [
    m.fit(x, x[:, :1], batch_size=4, shuffle=False, verbose=0).history["loss"][0]
    for m in (model, loaded)
]
config = opt.get_config()
again = LossScaleOptimizer.from_config(config)
policy = mixed_precision.Policy("mixed_float16", loss_scale=8)
policy_again = mixed_precision.Policy.from_config(policy.get_config())
result = {
    "type": type(loaded.optimizer).__name__,
    "same": bool(abs(losses[0] - losses[1]) < 1e-3),
    "loss": round(losses[0], 3),
    "iterations": int(loaded.optimizer.iterations),
    "scale": float(loaded.optimizer.loss_scale()),
    "keys": sorted(k for k in config if k != "name"),
    "scale_config": config["loss_scale"],
    "again": [float(again.loss_scale()), again.loss_scale.increment_period],
    "policy_again": [policy_again.name, float(policy_again.loss_scale())],
}
print("RESULT", json.dumps(result))
