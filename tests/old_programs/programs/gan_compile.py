# The GAN of the Keras examples: a Model with its own compile() for two optimizers, its
# own train_step and metrics; loss scaling added by hand. Written for TF 2.4 - 2.15.
import json

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

keras.mixed_precision.set_global_policy("mixed_float16")
LossScaleOptimizer = keras.mixed_precision.LossScaleOptimizer


def network(units, outputs):
    return keras.Sequential(
        [
            layers.Dense(units, activation="tanh", kernel_initializer="ones"),
            layers.Dense(outputs, kernel_initializer="ones", dtype="float32"),
        ]
    )


class GAN(keras.Model):
    def __init__(self, discriminator, generator):
        super(GAN, self).__init__()
        self.discriminator = discriminator
        self.generator = generator

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super(GAN, self).compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.loss_fn = loss_fn
        self.d_loss_metric = keras.metrics.Mean(name="d_loss")

    @property
    def metrics(self):
        return [self.d_loss_metric]

    def train_step(self, real):
        noise = tf.reverse(real, axis=[1])
        labels = tf.concat([tf.ones((4, 1)), tf.zeros((4, 1))], axis=0)
        with tf.GradientTape() as tape:
            both = tf.concat([self.generator(noise), real], axis=0)
            d_loss = self.loss_fn(labels, self.discriminator(both))
            scaled = self.d_optimizer.get_scaled_loss(d_loss)
        weights = self.discriminator.trainable_weights
        grads = self.d_optimizer.get_unscaled_gradients(tape.gradient(scaled, weights))
        self.d_optimizer.apply_gradients(zip(grads, weights))
        with tf.GradientTape() as tape:
            predictions = self.discriminator(self.generator(noise))
            g_loss = self.loss_fn(tf.zeros((4, 1)), predictions)
            scaled = self.g_optimizer.get_scaled_loss(g_loss)
        weights = self.generator.trainable_weights
        grads = self.g_optimizer.get_unscaled_gradients(tape.gradient(scaled, weights))
        self.g_optimizer.apply_gradients(zip(grads, weights))
        self.d_loss_metric.update_state(d_loss)
        return {"d_loss": self.d_loss_metric.result()}


gan = GAN(network(4, 1), network(4, 2))
gan.compile(
    d_optimizer=LossScaleOptimizer(keras.optimizers.Adam(0.01), initial_scale=2.0**24),
    g_optimizer=LossScaleOptimizer(keras.optimizers.SGD(0.01), dynamic_growth_steps=2),
    loss_fn=keras.losses.BinaryCrossentropy(from_logits=True),
)
x = np.random.RandomState(0).rand(16, 2).astype("float32")
h = gan.fit(x, batch_size=4, epochs=2, shuffle=False, verbose=0)
result = {
    "d_loss": [round(v, 2) for v in h.history["d_loss"]],
    "d_scale": float(gan.d_optimizer.loss_scale),
    "g_scale": float(gan.g_optimizer.loss_scale),
    "iterations": [int(gan.d_optimizer.iterations), int(gan.g_optimizer.iterations)],
}
print("RESULT", json.dumps(result))
