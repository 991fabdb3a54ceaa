# tf.keras.optimizers.legacy, which programs of TF 2.11 - 2.15 named to keep the old
# optimizers, wrapped. Written for TF 2.11 - 2.15.
import json

import tensorflow as tf

try:
    Adam = tf.keras.optimizers.legacy.Adam
except AttributeError:
    Adam = tf.keras.optimizers.Adam
opt = tf.keras.mixed_precision.LossScaleOptimizer(
    Adam(learning_rate=0.125, decay=0.5), initial_scale=8
)
v = tf.Variable(1.0)
for g in (1.0, 1.0, float("inf")):
    opt.apply_gradients([(tf.constant(g), v)])
result = {
    "v": round(float(v), 4),
    "scale": float(opt.loss_scale),
    "iterations": int(opt.iterations),
    "type": type(opt).__name__,
    "beta_1": round(float(opt.beta_1), 3),
    "lr": float(opt.lr),
}
print("RESULT", json.dumps(result))
