"""`fit` on two replicas logs what the model's own steps return."""

import json

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def replica():
    context = tf.distribute.get_replica_context()
    return tf.cast(context.replica_id_in_sync_group + 1, tf.float32)


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
            scaled = self.optimizer.get_scaled_loss(loss)
        grads = tape.gradient(scaled, self.trainable_variables)
        grads = self.optimizer.get_unscaled_gradients(grads)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        return {"loss": loss, "replica": replica()}

    def test_step(self, data):
        x, y = data
        return {"loss": tf.reduce_mean((self(x) - y) ** 2), "replica": replica()}


class Stop(tf.keras.callbacks.Callback):
    """A threshold of the program's own."""

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = logs["loss"] < 19.9


x = np.arange(8, dtype="float32").reshape(8, 1)
y = np.zeros((8, 1), "float32")
with strategy.scope():
    model = Model()
    optimizer = tf.keras.optimizers.SGD(0.001)
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
    model.compile(optimizer=optimizer)
history = model.fit(
    x,
    y,
    batch_size=4,
    shuffle=False,
    epochs=2,
    verbose=0,
    validation_data=(x, y),
    callbacks=[Stop()],
)
result = {
    "history": {
        key: list(map(float, logged)) for key, logged in history.history.items()
    },
    "evaluated": [
        float(value) for value in model.evaluate(x, y, batch_size=4, verbose=0)
    ],
    "predicted": model.predict(x[:4], batch_size=4, verbose=0).shape,
}
print("RESULT", json.dumps(result))
