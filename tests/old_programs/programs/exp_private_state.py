# What programs logged of the private state: the scale's variables, _loss_scale,
# _optimizer; and a loss scale used by itself, without an optimizer.
# Written for TF 2.1 - 2.3.
import json

import tensorflow as tf

mp = tf.keras.mixed_precision.experimental
opt = mp.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), "dynamic")
v = tf.Variable(1.0)
for g in (1.0, float("nan"), 1.0):
    opt.apply_gradients([(tf.constant(g), v)])
scale = tf.train.experimental.DynamicLossScale(
    initial_loss_scale=8, increment_period=1, multiplier=4.0
)
optimizer = tf.keras.optimizers.SGD(0.25)
w = tf.Variable([2.0])


@tf.function
def step(factor):
    loss_scale = scale()
    with tf.GradientTape() as tape:
        loss = w * factor * loss_scale
    (grad,) = tape.gradient(loss, [w])
    grads = [grad / loss_scale]
    _, should_apply = scale.update(grads)

    def apply():
        optimizer.apply_gradients(zip(grads, [w]))
        return True

    return tf.cond(should_apply, apply, lambda: False)


applied = [bool(step(tf.constant(f))) for f in (1.0, float("inf"), 2.0)]
fixed = tf.mixed_precision.experimental.FixedLossScale(32.0)
update, should = fixed.update([tf.constant(float("nan"))])
result = {
    "current_scale": float(opt._loss_scale._current_loss_scale),
    "good_steps": int(opt._loss_scale._num_good_steps),
    "inner": opt._optimizer.__class__.__name__,
    "same_scale": opt.loss_scale is opt._loss_scale,
    "period_steps": opt.loss_scale.increment_period,
    "multiplier": opt.loss_scale.multiplier,
    "initial_scale": opt.loss_scale.initial_loss_scale,
    "applied": applied,
    "w": w.numpy().tolist(),
    "scale": float(scale()),
    "fixed": [float(fixed()), should, repr(fixed)],
    "copy": tf.train.experimental.DynamicLossScale.from_config(
        scale.get_config()
    ).get_config(),
}
print("RESULT", json.dumps(result))
