# enable_mixed_precision_graph_rewrite by its names of tf.compat.v1, and the errors of a
# second call and of a policy beside it. Written for TF 2.4 - 2.8.
import json

import numpy as np
import tensorflow as tf


def error_of(f):
    try:
        f()
    except Exception as e:
        return type(e).__name__
    return "none"


enable = tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite
same = tf.compat.v1.train.experimental.enable_mixed_precision_graph_rewrite
opt = enable(tf.keras.optimizers.Adam(0.01), loss_scale=64)
twice = error_of(lambda: same(opt))
with_policy = error_of(
    lambda: tf.keras.mixed_precision.set_global_policy("mixed_float16")
)
x = np.random.RandomState(0).rand(8, 3).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones")])
model.compile(opt, "mse")
h = model.fit(x, x[:, :1], batch_size=4, epochs=2, shuffle=False, verbose=0)
tf.compat.v1.mixed_precision.disable_mixed_precision_graph_rewrite()
tf.keras.mixed_precision.set_global_policy("mixed_float16")
before = error_of(lambda: enable(tf.keras.optimizers.SGD(0.1)))
result = {
    "twice": twice,
    "with_policy": with_policy,
    "after_policy": before,
    "loss": round(h.history["loss"][-1], 3),
    "same_optimizer": model.optimizer is opt,
    "scaled": float(opt.get_scaled_loss(tf.constant(2.0))),
    "iterations": int(opt.iterations),
}
print("RESULT", json.dumps(result))
