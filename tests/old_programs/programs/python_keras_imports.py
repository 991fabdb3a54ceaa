# Imports from tensorflow.python.keras, as copied from stack traces, and an optimizer of
# the public API. Written for TF 2.2 - 2.3.
import json

import tensorflow as tf
from tensorflow.python.keras.mixed_precision.experimental import (
    loss_scale_optimizer as lso,
)
from tensorflow.python.keras.mixed_precision.experimental import policy

policy.set_policy(policy.Policy("mixed_float16", loss_scale=512))
now = policy.global_policy()
opt = lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), now.loss_scale)
v = tf.Variable(1.0)
with tf.GradientTape() as tape:
    scaled = opt.get_scaled_loss(v * 3.0)
grads = tape.gradient(scaled, [v])
raw = float(grads[0])
opt.apply_gradients(zip(opt.get_unscaled_gradients(grads), [v]))
layer = tf.keras.layers.Dense(2)
layer.build((None, 2))
result = {
    "name": now.name,
    "scale": float(now.loss_scale()),
    "raw": raw,
    "v": float(v),
    "kernel": layer.kernel.dtype.name
    if hasattr(layer.kernel.dtype, "name")
    else layer.kernel.dtype,
}
print("RESULT", json.dumps(result))
