# An embedding with sparse gradients, clipped together with dense ones by global norm;
# a variable without a gradient; two losses on a persistent tape; the update inside
# tf.cond. Written for TF 2.4 - 2.10.
import json

import numpy as np
import tensorflow as tf

table = tf.Variable(tf.ones((5, 2)), name="table")
dense = tf.Variable([[1.0], [2.0]], name="dense")
unused = tf.Variable(7.0, name="unused")
variables = [table, dense, unused]
opt = tf.keras.mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.Adam(0.125), initial_scale=2.0**12, dynamic_growth_steps=3
)
kinds = []


@tf.function
def step(ids, factor):
    with tf.GradientTape(persistent=True) as tape:
        out = tf.matmul(tf.gather(table, ids), dense) * factor
        first = tf.reduce_mean(out**2)
        second = tf.reduce_mean(tf.abs(out))
        scaled = [opt.get_scaled_loss(loss) for loss in (first, second)]
    grads = [opt.get_unscaled_gradients(tape.gradient(s, variables)) for s in scaled]
    kinds.extend(isinstance(g, tf.IndexedSlices) for g in grads[0])
    sums = [
        None if a is None else tf.convert_to_tensor(a) + tf.convert_to_tensor(b)
        for a, b in zip(*grads)
    ]
    norm = tf.linalg.global_norm(sums)
    tf.cond(
        norm > 1e-6,
        lambda: tf.group(opt.apply_gradients(zip(sums, variables))),
        lambda: tf.no_op(),
    )
    return norm


@tf.function
def sparse_step(ids):
    with tf.GradientTape() as tape:
        out = tf.matmul(tf.gather(table, ids), dense)
        scaled = opt.get_scaled_loss(tf.reduce_mean(out))
    grads = opt.get_unscaled_gradients(tape.gradient(scaled, [table, dense]))
    grads, _ = tf.clip_by_global_norm(grads, 1.0)
    opt.apply_gradients(zip(grads, [table, dense]))


scales = []
for ids, factor in (
    ([0, 0, 1], 1.0),
    ([2, 2, 2], 2.0),
    ([0, 1, 2], 1e36),
    ([4, 4, 4], 0.0),
):
    step(tf.constant(ids), tf.constant(factor))
    scales.append(float(opt.loss_scale))
sparse_step(tf.constant([3, 3, 0]))
result = {
    "sparse": kinds[:3],
    "scales": scales,
    "iterations": int(opt.iterations),
    "table": np.round(table.numpy(), 3).tolist(),
    "unused": float(unused),
    "end_scale": float(opt.loss_scale),
}
print("RESULT", json.dumps(result))
