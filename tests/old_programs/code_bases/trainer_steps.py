# A trainer that is a model: train_step and test_step of its own, metrics that are
# attributes, several steps for each execution. Written for TF 2.4 - 2.10.
import json

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")
random = np.random.RandomState(7)


class Distiller(tf.keras.Model):
    def __init__(self, student, teacher):
        super().__init__()
        self.student = student
        self.teacher = teacher
        self.distillation = tf.keras.metrics.Mean(name="distillation")

    def compile(self, optimizer, temperature):
        super().compile(optimizer=optimizer)
        self.temperature = temperature

    @property
    def metrics(self):
        return [self.distillation]

    def _loss(self, x, y, training):
        teacher = self.teacher(x, training=False)
        student = self.student(x, training=training)
        soft = tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits(
                tf.nn.softmax(teacher / self.temperature), student / self.temperature
            )
        )
        hard = tf.nn.sparse_softmax_cross_entropy_with_logits(y, student)
        return 0.5 * soft + 0.5 * tf.reduce_mean(hard)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self._loss(x, y, True)
            scaled = self.optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(scaled, self.student.trainable_variables)
        gradients = self.optimizer.get_unscaled_gradients(gradients)
        self.optimizer.apply_gradients(zip(gradients, self.student.trainable_variables))
        self.distillation.update_state(loss)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        x, y = data
        self.distillation.update_state(self._loss(x, y, False))
        return {m.name: m.result() for m in self.metrics}


def network(width):
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(width, activation="relu"),
            tf.keras.layers.Dense(3, dtype="float32"),
        ]
    )
    model.build((None, 4))
    model.set_weights(
        [random.normal(0, 0.5, w.shape).astype("float32") for w in model.get_weights()]
    )
    return model


class Distributed(Distiller):
    def compile(self, optimizer, temperature, steps_per_execution):
        tf.keras.Model.compile(
            self, optimizer=optimizer, steps_per_execution=steps_per_execution
        )
        self.temperature = temperature


x = random.rand(60, 4).astype("float32")
x[25] = 6e4  # the third batch overflows
y = random.randint(0, 3, 60)
results = {}
teacher = network(8)
start = network(4).get_weights()
for name, steps in (("one step", 1), ("two steps", 2)):
    student = network(4)
    student.set_weights(start)
    trainer = Distributed(student, teacher)
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
        tf.keras.optimizers.SGD(0.2, momentum=0.9, nesterov=True), initial_scale=4096.0
    )
    trainer.compile(optimizer, temperature=2.0, steps_per_execution=steps)
    history = trainer.fit(x, y, batch_size=10, epochs=2, shuffle=False, verbose=0)
    results[name] = {
        "after": round(float(trainer.evaluate(x[:20], y[:20], verbose=0)), 3),
        "scale": float(trainer.optimizer.loss_scale),
        "iterations": int(trainer.optimizer.iterations),
        "norms": [round(float(np.linalg.norm(w)), 3) for w in student.get_weights()],
        "keys": sorted(history.history),
    }
print("RESULT", json.dumps(results))
