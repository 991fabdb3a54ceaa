# A WGAN-GP code base: a critic with a gradient penalty (a tape within the tape), five
# critic steps for one of the generator, two optimizers. Written for TF 2.4 - 2.8.
import json

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision

mixed_precision.set_global_policy(mixed_precision.Policy("mixed_float16"))
random = np.random.RandomState(5)


def network(width, inputs):
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(6),
            tf.keras.layers.LeakyReLU(0.2),
            tf.keras.layers.Dense(width, dtype="float32"),
        ]
    )
    model.build((None, inputs))
    model.set_weights(
        [random.normal(0, 0.4, w.shape).astype("float32") for w in model.get_weights()]
    )
    return model


generator, critic = network(2, 3), network(1, 2)
g_optimizer = mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.Adam(2e-2, beta_1=0.5), initial_scale=1024.0
)
d_optimizer = mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.Adam(2e-2, beta_1=0.5), initial_scale=2.0**33
)
real = (random.rand(48, 2) + 1).astype("float32")
noise = random.normal(size=(60, 8, 3)).astype("float32")
mix = random.rand(60, 8, 1).astype("float32")


def penalty(real_rows, fake, epsilon):
    between = epsilon * real_rows + (1 - epsilon) * fake
    with tf.GradientTape() as tape:
        tape.watch(between)
        score = critic(between, training=True)
    slopes = tape.gradient(score, between)
    norm = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=1) + 1e-12)
    return tf.reduce_mean((norm - 1.0) ** 2)


@tf.function
def critic_step(real_rows, z, epsilon):
    with tf.GradientTape() as tape:
        fake = generator(z, training=True)
        loss = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(real_rows))
        loss += 10.0 * penalty(real_rows, fake, epsilon)
        scaled = d_optimizer.get_scaled_loss(loss)
    gradients = tape.gradient(scaled, critic.trainable_variables)
    gradients = d_optimizer.get_unscaled_gradients(gradients)
    d_optimizer.apply_gradients(zip(gradients, critic.trainable_variables))
    return loss


@tf.function
def generator_step(z):
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(critic(generator(z, training=True), training=True))
        scaled = g_optimizer.get_scaled_loss(loss)
    gradients = tape.gradient(scaled, generator.trainable_variables)
    gradients = g_optimizer.get_unscaled_gradients(gradients)
    g_optimizer.apply_gradients(zip(gradients, generator.trainable_variables))
    return loss


number, critic_losses, generator_losses = 0, [], []
for _ in range(6):
    for _ in range(5):
        start = 8 * (number % 6)
        rows = real[start : start + 8]
        loss = critic_step(rows, noise[number], mix[number])
        number += 1
    critic_losses.append(round(float(loss), 2))
    generator_losses.append(round(float(generator_step(noise[number])), 2))

result = {
    "critic": critic_losses,
    "generator": generator_losses,
    "scale": [float(d_optimizer.loss_scale), float(g_optimizer.loss_scale)],
    "iterations": [int(d_optimizer.iterations), int(g_optimizer.iterations)],
}
print("RESULT", json.dumps(result))
