# A model whose layers have policies goes through to_json, clone_model and get_config.
# Written for TF 2.2 - 2.3.
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mp

mp.set_policy(mp.Policy("mixed_float16", loss_scale=64))
inputs = tf.keras.Input((3,))
x = tf.keras.layers.Dense(4, kernel_initializer="ones")(inputs)
x = tf.keras.layers.Dense(2, dtype=mp.Policy("float32"), kernel_initializer="ones")(x)
model = tf.keras.Model(inputs, x)
again = tf.keras.models.model_from_json(model.to_json())
clone = tf.keras.models.clone_model(model)
mp.set_policy("float32")
third = tf.keras.Model.from_config(model.get_config())
out = {}
for name, m in (("json", again), ("clone", clone), ("config", third)):
    m.compile(tf.keras.optimizers.SGD(0.01), "mse")
    y = m(tf.ones((1, 3)))
    layers = [layer for layer in m.layers if layer.weights]
    out[name] = {
        "policies": [mp.get_layer_policy(layer).name for layer in layers],
        "out": [y.dtype.name, round(float(y[0, 0]), 2)],
        "variables": len(m.trainable_variables),
    }
print("RESULT", json.dumps(out))
