# minimize() with a tape, with a callable, and by hand with compute_gradients; a fixed
# scale beside a dynamic one. Written for TF 2.4 - 2.10.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf
from tensorflow.keras import mixed_precision as mp

v = tf.Variable([1.0, 2.0])
w = tf.Variable([3.0])
fixed = mp.LossScaleOptimizer(
    tf.keras.optimizers.SGD(0.1), dynamic=False, initial_scale=64
)
moving = mp.LossScaleOptimizer(
    tf.keras.optimizers.SGD(0.1, momentum=0.9), True, 2.0**10, 2
)


@tf.function
def train(factor):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(v * v) + tf.reduce_sum(w) * factor
    moving.minimize(loss, [v, w], tape=tape)
    return loss


scales = []
for factor in (1.0, 1.0, 1e38, 1.0):
    train(tf.constant(factor))
    scales.append(float(moving.loss_scale))
fixed.minimize(lambda: tf.reduce_sum(v * w), var_list=[v, w])
fixed.minimize(lambda: tf.reduce_sum(v), lambda: [v])
try:
    fixed.minimize(tf.constant(1.0), [v])
    error = "none"
except ValueError as e:
    error = type(e).__name__
result = {
    "v": [round(float(x), 5) for x in v.numpy()],
    "w": [round(float(x), 5) for x in w.numpy()],
    "scales": scales,
    "fixed_scale": float(fixed.loss_scale),
    "fixed": [fixed.dynamic, fixed.dynamic_counter, fixed.dynamic_growth_steps],
    "initial_scale": [fixed.initial_scale, moving.initial_scale],
    "growth_steps": moving.dynamic_growth_steps,
    "iterations": [int(fixed.iterations), int(moving.iterations)],
    "error": error,
}
print("RESULT", json.dumps(result))
