# AdamWeightDecay of the model garden, by the methods that OptimizerV2 had for subclasses,
# wrapped. Written for TF 2.4 - 2.8.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import re

import numpy as np
import tensorflow as tf


class AdamWeightDecay(tf.keras.optimizers.Adam):
    def __init__(
        self,
        learning_rate=0.001,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-7,
        weight_decay_rate=0.0,
        exclude_from_weight_decay=None,
        name="AdamWeightDecay",
        **kwargs,
    ):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, False, name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self._exclude_from_weight_decay = exclude_from_weight_decay

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[(var_device, var_dtype)]["weight_decay_rate"] = tf.constant(
            self.weight_decay_rate, name="adam_weight_decay_rate"
        )

    def _decay_weights_op(self, var, learning_rate, apply_state):
        if self._do_use_weight_decay(var.name):
            rate = apply_state[(var.device, var.dtype.base_dtype)]["weight_decay_rate"]
            return var.assign_sub(learning_rate * var * rate)
        return tf.no_op()

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

    def _get_lr(self, var_device, var_dtype, apply_state):
        apply_state = apply_state or {}
        coefficients = apply_state.get((var_device, var_dtype))
        if coefficients is None:
            coefficients = self._fallback_apply_state(var_device, var_dtype)
            apply_state[(var_device, var_dtype)] = coefficients
        return coefficients["lr_t"], dict(apply_state=apply_state)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        lr_t, kwargs = self._get_lr(var.device, var.dtype.base_dtype, apply_state)
        decay = self._decay_weights_op(var, lr_t, apply_state)
        with tf.control_dependencies([decay]):
            return super()._resource_apply_dense(grad, var, **kwargs)

    def _do_use_weight_decay(self, param_name):
        for r in self._exclude_from_weight_decay or ():
            if re.search(r, param_name) is not None:
                return False
        return self.weight_decay_rate != 0


v = tf.Variable([1.0, 2.0], name="kernel")
b = tf.Variable([1.0], name="bias")
opt = tf.keras.mixed_precision.LossScaleOptimizer(
    AdamWeightDecay(0.1, weight_decay_rate=0.5, exclude_from_weight_decay=["bias"])
)
for _ in range(3):
    opt.minimize(lambda: tf.reduce_sum(v * v) + tf.reduce_sum(b), [v, b])
result = {
    "v": np.round(v.numpy(), 4).tolist(),
    "b": np.round(b.numpy(), 4).tolist(),
    "scale": float(opt.loss_scale),
    "iterations": int(opt.iterations),
}
print("RESULT", json.dumps(result))
