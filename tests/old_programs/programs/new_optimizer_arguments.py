# What the optimizers of TF 2.11 - 2.15 took and had: jit_compile, build(), variables as
# a list, AdamW, weight_decay, the learning rate by assignment. Written for TF 2.11 - 2.15.
import json

import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import LossScaleOptimizer

v = tf.Variable([1.0, -1.0], name="v")
adam = tf.keras.optimizers.Adam(learning_rate=0.1, weight_decay=0.01, jit_compile=False)
opt = LossScaleOptimizer(adam, initial_scale=2.0**8, dynamic_growth_steps=2)
opt.build([v])
count = len(opt.variables)
opt.apply_gradients([(tf.constant([1.0, np.nan]), v)])
opt.apply_gradients(
    zip([tf.constant([1.0, 1.0])], [v]), skip_gradients_aggregation=True
)
opt.learning_rate = 0.5
opt.apply_gradients([(tf.constant([1.0, 1.0]), v)], name="last")
adamw = LossScaleOptimizer(
    tf.keras.optimizers.AdamW(0.1, weight_decay=0.25), dynamic=False, initial_scale=4
)
w = tf.Variable([2.0], name="w")
adamw.minimize(lambda: tf.reduce_sum(w), [w])
adamw.learning_rate.assign(0.25)
result = {
    "v": np.round(v.numpy(), 4).tolist(),
    "w": np.round(w.numpy(), 4).tolist(),
    "scale": float(opt.loss_scale),
    "counter": int(opt.dynamic_counter),
    "iterations": [int(opt.iterations), int(adamw.iterations)],
    "lr": [round(float(o.learning_rate), 4) for o in (opt, adamw)],
    "many": count >= 3,
    "weight_decay": opt.inner_optimizer.weight_decay,
    "config": opt.get_config()["initial_scale"],
}
print("RESULT", json.dumps(result))
