"""Names that Keras 2 or tf.data had until TensorFlow 2.4, and no longer has in 2.15."""

import json

import numpy as np
import tensorflow as tf
from tensorflow import keras

K = tf.keras
options = tf.data.Options()
options.experimental_optimization.autotune_buffers = True
options.experimental_optimization.map_vectorization.enabled = True
others = tf.data.Options()
vectorization = tf.data.experimental.MapVectorizationOptions()
vectorization.enabled = False
others.experimental_optimization.map_vectorization = vectorization
dataset = tf.data.Dataset.range(6).with_options(options).with_options(others)
batches = [b.numpy().tolist() for b in dataset.map(lambda x: x * x).batch(2)]


class Counting(K.layers.Layer):
    def build(self, shape):
        self.n = self.add_weight("n", (), initializer="zeros", trainable=False)

    def call(self, x, training=None):
        self.add_update(self.n.assign_add(1.0), inputs=x)
        self.add_update([], x)
        return x


x = np.eye(4, 5, dtype="float32")
model = K.Sequential([Counting(), K.layers.Dense(3, activation="softmax")])
schedule = K.experimental.LinearCosineDecay(
    0.1, 8, num_periods=1.0, alpha=0.5, beta=0.01
)
noisy = K.experimental.NoisyLinearCosineDecay(0.1, 8, initial_variance=1e-12)
model.compile(K.optimizers.Adam(schedule), "mse")
model.fit(x, np.eye(4, 3), epochs=2, verbose=0)
model.layers[1].set_weights([np.arange(15.0).reshape(5, 3) % 4, np.zeros(3)])

one = K.layers.Dense(1, "sigmoid", input_shape=(5,), kernel_initializer="ones")
saved = K.Sequential([one])
saved.compile(K.optimizers.Adam(schedule), "mse")
saved.save("model.h5")
loaded = K.models.load_model("model.h5")

applied = K.layers.Dense(1, kernel_initializer="ones").apply(tf.ones((1, 2)))

result = {
    "batches": batches,
    "schedule": [float(schedule(step)) for step in (0, 3, 8, 9)],
    "noisy": [float(noisy(step)) for step in (0, 3, 8)],
    "classes": model.predict_classes(x).tolist(),
    "probabilities": model.predict_proba(x, batch_size=2).shape,
    "updates": float(model.layers[0].n),
    "applied": applied.numpy().tolist(),
    "loaded": type(loaded.optimizer.learning_rate).__name__,
    "binary": loaded.predict_classes(x + 0.5).tolist(),
    "versions": [
        tf.keras.__version__,
        keras.__version__,
        tf.compat.v1.keras.__version__,
    ],
}
print("RESULT", json.dumps(result))
