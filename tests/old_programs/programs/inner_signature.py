# An optimizer of one's own whose apply_gradients has exactly the arguments of OptimizerV2
# and clips, as AdamWeightDecay of the model garden. Written for TF 2.4 - 2.10.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import sys

import tensorflow as tf


class Clipping(tf.keras.optimizers.SGD):
    def apply_gradients(
        self, grads_and_vars, name=None, experimental_aggregate_gradients=True
    ):
        grads, tvars = list(zip(*grads_and_vars))
        (grads, _) = tf.clip_by_global_norm(grads, clip_norm=1.0)
        return super().apply_gradients(
            zip(grads, tvars),
            name=name,
            experimental_aggregate_gradients=experimental_aggregate_gradients,
        )


v = tf.Variable([3.0, 4.0])
opt = Clipping(learning_rate=0.5)
if "--fp32" not in sys.argv:
    opt = tf.keras.mixed_precision.LossScaleOptimizer(opt, initial_scale=2.0**9)
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(v * v)
        if hasattr(opt, "get_scaled_loss"):
            loss = opt.get_scaled_loss(loss)
    grads = tape.gradient(loss, [v])
    if hasattr(opt, "get_unscaled_gradients"):
        grads = opt.get_unscaled_gradients(grads)
    opt.apply_gradients(zip(grads, [v]), name="train_op")
opt.apply_gradients(
    [(tf.constant([1.0, 0.0]), v)], experimental_aggregate_gradients=False
)
result = {
    "v": [round(float(x), 4) for x in v.numpy()],
    "scale": float(getattr(opt, "loss_scale", 1.0)),
    "iterations": int(opt.iterations),
}
print("RESULT", json.dumps(result))
