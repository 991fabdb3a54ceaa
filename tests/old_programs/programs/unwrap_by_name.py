# Helpers of libraries that look inside a wrapped optimizer: by _optimizer, by the name
# of its type, by hasattr. Written for TF 2.4 - 2.10.
import json

import tensorflow as tf
from tensorflow.keras import mixed_precision


def innermost(opt):
    while hasattr(opt, "_optimizer"):
        opt = opt._optimizer
    return opt


def is_loss_scaled(opt):
    return type(opt).__name__ in ("LossScaleOptimizer", "LossScaleOptimizerV1")


def backward(opt, tape, loss, variables):
    if hasattr(opt, "get_scaled_loss"):
        with tape:
            loss = opt.get_scaled_loss(loss)
        return opt.get_unscaled_gradients(tape.gradient(loss, variables))
    elif hasattr(opt, "scale_loss"):
        with tape:
            loss = opt.scale_loss(loss)
    return tape.gradient(loss, variables)


out = {}
for name in ("SGD", "Adam", "RMSprop"):
    inner = getattr(tf.keras.optimizers, name)(learning_rate=0.25)
    opt = mixed_precision.LossScaleOptimizer(inner, initial_scale=32.0)
    w = tf.Variable(1.0)
    for o in (inner, opt):
        with tf.GradientTape(persistent=True) as tape:
            loss = w * w * w
        (grad,) = backward(o, tape, loss, [w])
    opt.apply_gradients([(grad, w)])
    out[name] = [
        innermost(opt) is inner,
        innermost(inner) is inner,
        is_loss_scaled(opt),
        is_loss_scaled(inner),
        type(innermost(opt)).__name__,
        float(grad),
        round(float(w), 4),
        isinstance(opt, tf.keras.optimizers.Optimizer),
        isinstance(opt, mixed_precision.LossScaleOptimizer),
        isinstance(inner, mixed_precision.LossScaleOptimizer),
    ]
print("RESULT", json.dumps(out))
