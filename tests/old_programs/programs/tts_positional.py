# The trainer of a text-to-speech code base: its optimizer clips by a norm, which
# apply_gradients gets through the wrapper by position. Written for TF 2.3 - 2.8.
import json

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")


class ClippedAdam(tf.keras.optimizers.Adam):
    def apply_gradients(self, grads_and_vars, clip_norm=0.5, **kwargs):
        grads, variables = list(zip(*grads_and_vars))
        grads, _ = tf.clip_by_global_norm(grads, clip_norm=clip_norm)
        return super().apply_gradients(zip(grads, variables), **kwargs)


class Trainer:
    def __init__(self, model, optimizer, gradient_accumulation_steps=1):
        self._model = model
        self._optimizer = optimizer
        self._accumulation = gradient_accumulation_steps
        self._trainable_variables = model.trainable_variables
        self._accumulator = [
            tf.Variable(tf.zeros_like(v), trainable=False)
            for v in self._trainable_variables
        ]
        self.train_metrics = {"loss": tf.keras.metrics.Mean(name="loss")}

    def _gradients(self, mel, target):
        with tf.GradientTape() as tape:
            outputs = self._model(mel, training=True)
            loss = tf.reduce_mean(tf.abs(tf.cast(outputs, tf.float32) - target))
            scaled = self._optimizer.get_scaled_loss(loss)
        scaled = tape.gradient(scaled, self._trainable_variables)
        self.train_metrics["loss"].update_state(loss)
        return self._optimizer.get_unscaled_gradients(scaled)

    @tf.function
    def one_step(self, mel, target):
        if self._accumulation == 1:
            gradients = self._gradients(mel, target)
            self._optimizer.apply_gradients(
                zip(gradients, self._trainable_variables), 1.0
            )
            return
        size = tf.shape(mel)[0] // self._accumulation
        for part in range(self._accumulation):
            here = slice(None)
            gradients = self._gradients(
                mel[part * size : (part + 1) * size][here],
                target[part * size : (part + 1) * size],
            )
            for total, gradient in zip(self._accumulator, gradients):
                total.assign_add(gradient)
        self._optimizer.apply_gradients(
            zip(
                [t / self._accumulation for t in self._accumulator],
                self._trainable_variables,
            ),
            1.0,
        )
        for total in self._accumulator:
            total.assign(tf.zeros_like(total))


def train(accumulation):
    random = np.random.RandomState(3)
    mels = random.rand(24, 6, 3).astype("float32")
    targets = 20 * mels.sum(2, keepdims=True)
    mels[8, 0] = 5e4  # the second step overflows
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Conv1D(4, 3, padding="same", activation="relu"),
            tf.keras.layers.Dense(1),
        ]
    )
    model.build((None, 6, 3))
    model.set_weights(
        [random.normal(0, 0.5, w.shape).astype("float32") for w in model.get_weights()]
    )
    optimizer = ClippedAdam(0.05, beta_2=0.98, epsilon=1e-3)
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer, dynamic=True)
    trainer = Trainer(model, optimizer, accumulation)
    for start in range(0, 24, 8):
        trainer.one_step(mels[start : start + 8], targets[start : start + 8])
    return {
        "scale": float(optimizer.loss_scale),
        "iterations": int(optimizer.iterations),
        "norms": [round(float(np.linalg.norm(w)), 4) for w in model.get_weights()],
    }


print("RESULT", json.dumps({"plain": train(1), "accumulated": train(2)}))
