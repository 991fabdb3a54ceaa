"""Train by `fit` of GradientAccumulateModel, which scales the loss itself."""

import importlib.metadata

import numpy as np
import tensorflow as tf
from gradient_accumulator import GradientAccumulateModel

tf.keras.mixed_precision.set_global_policy("mixed_float16")
x = np.linspace(-1, 1, 16).reshape(8, 2).astype("float32")
inputs = tf.keras.Input((2,))
outputs = tf.keras.layers.Dense(4, "relu", kernel_initializer="ones")(inputs)
outputs = tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32")(outputs)
model = GradientAccumulateModel(
    accum_steps=2, mixed_precision=True, inputs=inputs, outputs=outputs
)
optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.SGD(0.01), initial_scale=2.0**18, dynamic_growth_steps=3
)
model.compile(optimizer, "mse")
scales = []
note = tf.keras.callbacks.LambdaCallback(
    on_epoch_end=lambda *_: scales.append(float(optimizer.loss_scale))
)
history = model.fit(
    x, x.sum(1), batch_size=4, epochs=10, shuffle=False, verbose=0, callbacks=[note]
).history
version = importlib.metadata.version("gradient_accumulator")
print(f"gradient_accumulator {version}: scales", *map("{:g}".format, scales))
assert scales[0] == 2.0**17 and max(np.diff(scales)) > 0  # fell and grew
print("the loss falls:", history["loss"][-1] < history["loss"][0])
