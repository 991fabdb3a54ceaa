"""A model with its own `train_step` that scales the loss, and gradient penalty, in `fit`."""

import json

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

keras.mixed_precision.experimental.set_policy(
    keras.mixed_precision.experimental.Policy("mixed_float16", loss_scale="dynamic")
)
print("Keras", keras.__version__)


class CustomModel(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compiled_loss(y, y_pred, regularization_losses=self.losses)
            scaled = self.optimizer.get_scaled_loss(loss)
        variables = self.trainable_variables
        grads = self.optimizer.get_unscaled_gradients(tape.gradient(scaled, variables))
        grads = [tf.clip_by_norm(g, 1.0) for g in grads]
        self.optimizer.apply_gradients(zip(grads, variables))
        self.compiled_metrics.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


inputs = keras.Input(shape=(8,))
net = layers.Dense(
    8,
    activation="relu",
    kernel_initializer=keras.initializers.Constant(0.1),
    kernel_regularizer=keras.regularizers.l2(1e-3),
)(inputs)
outputs = layers.Dense(
    3, dtype="float32", kernel_initializer=keras.initializers.Constant(0.2)
)(net)
model = CustomModel(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(lr=0.01),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
    experimental_run_tf_function=False,
)
x = np.random.RandomState(0).rand(32, 8).astype("float32")
y = (x.sum(1) * 3).astype("int64") % 3
h = model.fit(
    x,
    y,
    epochs=2,
    batch_size=8,
    verbose=0,
    validation_split=0.25,
    shuffle=False,
    use_multiprocessing=False,
)
r = model.train_on_batch(x[:8], y[:8], reset_metrics=False)
print(
    "RESULT",
    json.dumps(
        {
            "keys": sorted(h.history),
            "loss": h.history["loss"],
            "names": model.metrics_names,
            "train_on_batch": [float(v) for v in r],
            "scale": float(model.optimizer.loss_scale),
            "iterations": int(model.optimizer.iterations),
            "wrapped": hasattr(model.optimizer, "get_scaled_loss"),
        }
    ),
)
