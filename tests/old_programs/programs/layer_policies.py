# Policies of layers: given one by one, asked for by custom layers, and the dtypes of
# what they compute; a regularizer and add_loss. Written for TF 2.4 - 2.10.
import json

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision as prec

seen = {}


class Scale(tf.keras.layers.Layer):
    def build(self, input_shape):
        self.factor = self.add_weight(
            name="factor", shape=(input_shape[-1],), initializer="ones"
        )

    def call(self, inputs):
        seen["inside"] = [
            inputs.dtype.name,
            tf.convert_to_tensor(self.factor).dtype.name,
        ]
        self.add_loss(1e-3 * tf.reduce_sum(tf.cast(self.factor, tf.float32) ** 2))
        return inputs * tf.cast(self.factor, self.compute_dtype)


prec.set_global_policy("mixed_float16")
half = prec.Policy("mixed_float16")
inputs = tf.keras.Input((3,))
hidden = tf.keras.layers.Dense(
    4,
    dtype=half,
    kernel_initializer="ones",
    kernel_regularizer=tf.keras.regularizers.l2(0.01),
)(inputs)
scaled = Scale()(hidden)
outputs = tf.keras.layers.Dense(
    1, dtype=prec.Policy("float32"), kernel_initializer="ones"
)(scaled)
model = tf.keras.Model(inputs, outputs)
model.compile(tf.keras.optimizers.SGD(0.001, momentum=0.9), "mse")
x = np.random.RandomState(0).rand(12, 3).astype("float32")
h = model.fit(x, x[:, :1], batch_size=4, epochs=2, shuffle=False, verbose=0)
layers = [layer for layer in model.layers if layer.weights]
result = {
    "inside": seen["inside"],
    "policies": [layer.dtype_policy.name for layer in layers],
    "compute": [layer.compute_dtype for layer in layers],
    "variable": [layer.variable_dtype for layer in layers],
    "outputs": layers[0].output.dtype in ("float16", tf.float16),
    "loss": [round(v, 2) for v in h.history["loss"]],
    "scale": float(model.optimizer.loss_scale),
    "iterations": int(model.optimizer.iterations),
    "model_policy": half.compute_dtype + "/" + half.variable_dtype,
}
print("RESULT", json.dumps(result))
