# Subclasses of LossScaleOptimizer: one overrides get_scaled_loss and
# get_unscaled_gradients, one apply_gradients. Written for TF 2.4 - 2.8.
import json

import numpy as np
import tensorflow as tf

LSO = tf.keras.mixed_precision.LossScaleOptimizer


class Recording(LSO):
    """Scales in float32 whatever the loss is, and counts."""

    def __init__(self, inner_optimizer, factor=1.0, **kwargs):
        super().__init__(inner_optimizer, **kwargs)
        self.factor = factor
        self.calls = []

    def get_scaled_loss(self, loss):
        self.calls.append("scale")
        if callable(loss):
            return super().get_scaled_loss(
                lambda: tf.cast(loss(), tf.float32) * self.factor
            )
        return super().get_scaled_loss(tf.cast(loss, tf.float32) * self.factor)

    def get_unscaled_gradients(self, grads):
        self.calls.append("unscale")
        grads = super().get_unscaled_gradients(grads)
        return [None if g is None else g / self.factor for g in grads]


class Limited(LSO):
    def apply_gradients(
        self, grads_and_vars, name=None, experimental_aggregate_gradients=True
    ):
        pairs = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in grads_and_vars]
        return super().apply_gradients(
            pairs,
            name=name,
            experimental_aggregate_gradients=experimental_aggregate_gradients,
        )


v = tf.Variable(2.0)
rec = Recording(tf.keras.optimizers.SGD(0.125), factor=4.0, initial_scale=16.0)
rec.minimize(lambda: v * v, [v])
with tf.GradientTape() as tape:
    scaled = rec.get_scaled_loss(tf.cast(v * v, tf.float16))
(grad,) = rec.get_unscaled_gradients(tape.gradient(scaled, [v]))
rec.apply_gradients([(grad, v)])

u = tf.Variable(2.0)
limited = Limited(tf.keras.optimizers.SGD(0.125), initial_scale=16.0)
limited.minimize(lambda: 100.0 * u, [u])
limited.apply_gradients([(tf.constant(np.nan), u)])
result = {
    "v": float(v),
    "u": float(u),
    "ratio": float(scaled / 2.25),
    "calls": rec.calls,
    "is": [isinstance(rec, LSO), isinstance(rec, tf.keras.optimizers.Optimizer)],
    "scale": [float(rec.loss_scale), float(limited.loss_scale)],
    "type": type(rec).__name__,
    "inner_lr": float(rec.lr),
}
print("RESULT", json.dumps(result))
