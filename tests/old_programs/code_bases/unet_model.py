# The model of a medical UNet code base: classes of layers, `super().__init__(self)`, a
# loop with metrics, weights in checkpoints that go on. Written for TF 2.1 - 2.8.
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")
folder = tempfile.mkdtemp()


class DownBlock(tf.keras.Model):
    def __init__(self, filters):
        super().__init__(self)
        self.conv = tf.keras.layers.Conv2D(
            filters, 3, padding="same", activation="relu"
        )
        self.pool = tf.keras.layers.MaxPool2D(2)

    def call(self, inputs):
        skipped = self.conv(inputs)
        return self.pool(skipped), skipped


class UpBlock(tf.keras.Model):
    def __init__(self, filters):
        super().__init__(self)
        self.up = tf.keras.layers.Conv2DTranspose(filters, 2, strides=2)
        self.conv = tf.keras.layers.Conv2D(
            filters, 3, padding="same", activation="relu"
        )

    def call(self, inputs, skipped):
        return self.conv(tf.keras.layers.concatenate([self.up(inputs), skipped]))


class Unet(tf.keras.Model):
    def __init__(self):
        super().__init__(self)
        self.down = DownBlock(2)
        self.bottom = tf.keras.layers.Conv2D(3, 3, padding="same", activation="relu")
        self.up = UpBlock(2)
        self.head = tf.keras.layers.Conv2D(1, 1, dtype="float32")

    def call(self, inputs):
        out, skipped = self.down(inputs)
        return self.head(self.up(self.bottom(out), skipped))


random = np.random.RandomState(4)
images = random.rand(12, 8, 8, 1).astype("float32")
masks = (images > 0.5).astype("float32")
weights = []


def create():
    model = Unet()
    model(images[:1])
    if not weights:
        weights.extend(
            random.normal(0, 0.3, w.shape).astype("float32")
            for w in model.get_weights()
        )
    model.set_weights(weights)
    optimizer = tf.keras.optimizers.Adam(learning_rate=0.01)
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
        optimizer, initial_scale=2.0**20, dynamic_growth_steps=4
    )
    return model, optimizer


ce_loss = tf.keras.metrics.Mean(name="ce_loss")


def train(model, optimizer, steps):
    @tf.function
    def step(features, labels):
        with tf.GradientTape() as tape:
            logits = model(features)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
            scaled = optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        ce_loss(loss)

    losses = []
    for number in range(steps):
        part = slice(4 * (number % 3), 4 * (number % 3) + 4)
        step(images[part], masks[part])
        losses.append(round(float(ce_loss.result()), 4))
        ce_loss.reset_states()
    return losses


model, optimizer = create()
checkpoint = tf.train.Checkpoint(optimizer=optimizer, model=model)
first = train(model, optimizer, 6)
path = checkpoint.save(os.path.join(folder, "checkpoint"))
model.save_weights(os.path.join(folder, "weights"))
rest = train(model, optimizer, 3)

resumed, its_optimizer = create()
checkpoint = tf.train.Checkpoint(optimizer=its_optimizer, model=resumed)
checkpoint.restore(path)
scale = float(its_optimizer.loss_scale)
again = train(resumed, its_optimizer, 3)
loaded, _ = create()
loaded.load_weights(os.path.join(folder, "weights"))

result = {
    "loss": first + rest,
    "goes on": bool(np.allclose(rest, again, atol=1e-3)),
    "scale": [scale, float(optimizer.loss_scale), float(its_optimizer.loss_scale)],
    "iterations": [int(optimizer.iterations), int(its_optimizer.iterations)],
    "norms": [round(float(np.linalg.norm(w)), 4) for w in loaded.get_weights()],
}
print("RESULT", json.dumps(result))
