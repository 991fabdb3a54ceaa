# An optimizer of one's own, derived from Adam, that centralizes gradients and decays
# weights in apply_gradients, wrapped and under fit(). Written for TF 2.4 - 2.8.
import json

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision


class CentralizedAdam(tf.keras.optimizers.Adam):
    def __init__(
        self, learning_rate=0.001, rate=0.01, name="CentralizedAdam", **kwargs
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.rate = rate
        self.applied = 0

    def apply_gradients(self, grads_and_vars, name=None, **kwargs):
        self.applied += 1
        pairs = []
        for grad, var in grads_and_vars:
            if len(grad.shape) > 1:
                grad -= tf.reduce_mean(grad, axis=0, keepdims=True)
                var.assign_sub(self.rate * var)
            pairs.append((grad, var))
        return super().apply_gradients(pairs, name=name, **kwargs)

    def get_config(self):
        config = super().get_config()
        config["rate"] = self.rate
        return config


mixed_precision.set_global_policy("mixed_float16")
model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(2, kernel_initializer="ones", input_shape=(3,)),
        tf.keras.layers.Activation("linear", dtype="float32"),
    ]
)
inner = CentralizedAdam(0.05)
opt = mixed_precision.LossScaleOptimizer(inner)
model.compile(opt, "mse")
x = np.random.RandomState(0).rand(16, 3).astype("float32")
x[4:8] *= 1e5
y = np.stack([x[:, 0], x[:, 1]], 1)
model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
copy = CentralizedAdam.from_config(opt.inner_optimizer.get_config())
result = {
    "kernel": np.round(model.get_weights()[0], 3).tolist(),
    "scale": float(opt.loss_scale),
    "iterations": int(opt.iterations),
    "called": inner.applied > 0,
    "copy": [type(copy).__name__, copy.rate],
    "lr": round(float(opt.lr), 4),
}
print("RESULT", json.dumps(result))
