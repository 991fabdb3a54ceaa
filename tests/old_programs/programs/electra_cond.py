# The step of an ELECTRA code base: gradients are accumulated in variables, and tf.cond
# applies them in every third step, all in one function. Written for TF 2.3 - 2.8.
import json

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision

mixed_precision.set_global_policy("mixed_float16")
ACCUMULATED = 3


class GradientAccumulator:
    def __init__(self):
        self._gradients = []
        self._steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    @property
    def step(self):
        return self._steps.value()

    @property
    def gradients(self):
        return [g.value() for g in self._gradients]

    def add_gradients(self, grads):
        if not self._gradients:
            self._gradients.extend(
                [tf.Variable(tf.zeros_like(g), trainable=False) for g in grads]
            )
        for total, gradient in zip(self._gradients, grads):
            total.assign_add(gradient)
        self._steps.assign_add(1)

    def reset(self):
        self._steps.assign(0)
        for total in self._gradients:
            total.assign(tf.zeros_like(total))


class Generator(tf.keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = tf.keras.layers.Dense(5, activation="relu")
        self.head = tf.keras.layers.Dense(3, dtype="float32")

    def call(self, inputs):
        return self.head(self.hidden(inputs))


random = np.random.RandomState(1)
rows = random.rand(12 * 4, 4).astype("float32")
rows[20] = 3e4  # the second accumulation overflows
labels = (rows.sum(1) * 3).astype("int32") % 3

model = Generator()
model(rows[:1])
model.set_weights(
    [random.normal(0, 0.5, w.shape).astype("float32") for w in model.get_weights()]
)
rate = tf.keras.optimizers.schedules.PolynomialDecay(0.1, 10, end_learning_rate=0.01)
optimizer = tf.keras.optimizers.SGD(rate, momentum=0.9)
optimizer = mixed_precision.LossScaleOptimizer(optimizer, initial_scale=256.0)
accumulator = GradientAccumulator()


@tf.function
def train_one_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        loss = tf.reduce_mean(losses) / ACCUMULATED
        scaled = optimizer.get_scaled_loss(loss)
    scaled_gradients = tape.gradient(scaled, model.trainable_variables)
    accumulator.add_gradients(optimizer.get_unscaled_gradients(scaled_gradients))

    def apply():
        gradients = accumulator.gradients
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm=1.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        accumulator.reset()
        return tf.constant(True)

    applied = tf.cond(
        tf.equal(accumulator.step, ACCUMULATED), apply, lambda: tf.constant(False)
    )
    return loss, applied


losses, applied, scales = [], [], []
for number in range(12):
    part = slice(4 * number, 4 * number + 4)
    loss, done = train_one_step(rows[part], labels[part])
    applied.append(bool(done))
    scales.append(float(optimizer.loss_scale))
    if np.isfinite(float(loss)):
        losses.append(round(float(loss), 4))

result = {
    "loss": losses,
    "applied": applied,
    "scale": scales,
    "iterations": int(optimizer.iterations),
    "norms": [round(float(np.linalg.norm(w)), 4) for w in model.get_weights()],
}
print("RESULT", json.dumps(result))
