# TF 2.4 - 2.8: the experimental optimizer, deprecated there, whose loss_scale was a
# tensor by then. Written for TF 2.4 - 2.8.
import json

import tensorflow as tf

mp = tf.keras.mixed_precision.experimental
opt = mp.LossScaleOptimizer(
    tf.keras.optimizers.SGD(0.5),
    tf.mixed_precision.experimental.DynamicLossScale(32, 2),
)
v = tf.Variable(1.0)
trace = []
for g in (1.0, 1.0, float("nan"), 0.5):
    opt.apply_gradients([(tf.constant(g), v)])
    trace.append("%g" % opt.loss_scale)
fixed = mp.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), loss_scale=16)
loss = tf.constant(2.0)
result = {
    "trace": trace,
    "numpy": float(opt.loss_scale.numpy()),
    "product": float(loss * opt.loss_scale),
    "quotient": float(fixed.get_scaled_loss(loss) / fixed.loss_scale),
    "dynamic": [opt.dynamic, fixed.dynamic],
    "initial_scale": [opt.initial_scale, fixed.initial_scale],
    "growth": [opt.dynamic_growth_steps, fixed.dynamic_growth_steps],
    "counter": int(opt.dynamic_counter),
    "v": float(v),
    "is_stable": isinstance(opt, tf.keras.mixed_precision.LossScaleOptimizer),
    "above": bool(opt.loss_scale > 1.0),
}
print("RESULT", json.dumps(result))
