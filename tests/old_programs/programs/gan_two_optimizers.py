# A small GAN: generator and discriminator each with a loss-scaled Adam, both trained by
# one step with two tapes. Written for TF 2.4 - 2.10.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras import mixed_precision as mxp

mxp.set_global_policy(mxp.Policy("mixed_float16"))
NOISE = 4
init = keras.initializers.Constant(0.3)

generator = keras.Sequential(
    [
        keras.Input((NOISE,)),
        layers.Dense(8, activation="relu", kernel_initializer=init),
        layers.Dense(2, kernel_initializer=init, dtype="float32"),
    ]
)
discriminator = keras.Sequential(
    [
        keras.Input((2,)),
        layers.Dense(8, kernel_initializer=init),
        layers.LeakyReLU(),
        layers.Dense(1, kernel_initializer=init, dtype="float32"),
    ]
)
bce = keras.losses.BinaryCrossentropy(from_logits=True)
g_opt = mxp.LossScaleOptimizer(keras.optimizers.Adam(1e-3, beta_1=0.5))
d_opt = mxp.LossScaleOptimizer(
    keras.optimizers.Adam(2e-3, beta_1=0.5), initial_scale=256.0, dynamic_growth_steps=3
)


@tf.function
def train_step(real, noise):
    with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
        fake = generator(noise, training=True)
        on_real = discriminator(real, training=True)
        on_fake = discriminator(fake, training=True)
        g_loss = bce(tf.ones_like(on_fake), on_fake)
        d_loss = bce(tf.ones_like(on_real), on_real) + bce(
            tf.zeros_like(on_fake), on_fake
        )
        g_scaled = g_opt.get_scaled_loss(g_loss)
        d_scaled = d_opt.get_scaled_loss(d_loss)
    g_vars, d_vars = generator.trainable_variables, discriminator.trainable_variables
    g_grads = g_opt.get_unscaled_gradients(g_tape.gradient(g_scaled, g_vars))
    d_grads = d_opt.get_unscaled_gradients(d_tape.gradient(d_scaled, d_vars))
    g_opt.apply_gradients(zip(g_grads, g_vars))
    d_opt.apply_gradients(zip(d_grads, d_vars))
    return g_loss, d_loss


rng = np.random.RandomState(3)
rows = []
for i in range(6):
    real = rng.randn(8, 2).astype("float32") + 1.0
    if i == 4:
        real *= 1e6
    noise = rng.randn(8, NOISE).astype("float32")
    g_loss, d_loss = train_step(tf.constant(real), tf.constant(noise))
    if i != 4:
        rows.append([round(float(g_loss), 3), round(float(d_loss), 3)])
result = {
    "losses": rows,
    "g_scale": float(g_opt.loss_scale),
    "d_scale": float(d_opt.loss_scale),
    "d_counter": int(d_opt.dynamic_counter.numpy()),
    "iterations": [g_opt.iterations.numpy().item(), d_opt.iterations.numpy().item()],
    "beta_1": round(float(g_opt.beta_1), 3),
}
print("RESULT", json.dumps(result))
