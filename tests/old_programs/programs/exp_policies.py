# Policies of TF 2.2 - 2.3 with a fixed, a dynamic, a default and no loss scale: what
# they say, and what compile makes of them. Written for TF 2.2 - 2.3.
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision.experimental import (
    LossScaleOptimizer,
    Policy,
    get_layer_policy,
    global_policy,
    set_policy,
)


def scale_of(policy):
    return None if policy.loss_scale is None else float(policy.loss_scale())


out = {"default": [global_policy().name, global_policy().loss_scale]}
for label, policy in (
    ("name", "mixed_float16"),
    ("fixed", Policy("mixed_float16", loss_scale=256)),
    ("dynamic", Policy("mixed_float16", loss_scale="dynamic")),
    ("none", Policy("mixed_float16", loss_scale=None)),
    ("bfloat16", Policy("mixed_bfloat16")),
    ("float32", Policy("float32")),
):
    set_policy(policy)
    now = global_policy()
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    model.compile(tf.keras.optimizers.Adam(), "mse")
    opt = model.optimizer
    wrapped = isinstance(opt, LossScaleOptimizer)
    out[label] = {
        "policy": [now.name, now.compute_dtype, now.variable_dtype, scale_of(now)],
        "layer": [get_layer_policy(model.layers[0]).name, model.layers[0].dtype],
        "layer_scale": scale_of(get_layer_policy(model.layers[0])),
        "optimizer": type(opt).__name__,
        "scale": float(opt.loss_scale()) if wrapped else None,
    }
set_policy("float32")
out["type"] = type(Policy("mixed_float16").loss_scale).__name__
print("RESULT", json.dumps(out))
