# A Wide & Deep code base: a linear part and a deep part, each with its own optimizer and
# its own loss scale, one persistent tape. Written for TF 2.4 - 2.8.
import json

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")
LossScaleOptimizer = tf.keras.mixed_precision.LossScaleOptimizer


class WideDeep(tf.keras.Model):
    def __init__(self, linear, deep):
        super().__init__()
        self.linear_model = linear
        self.dnn_model = deep
        self.activation = tf.keras.layers.Activation("sigmoid", dtype="float32")

    def call(self, inputs, training=None):
        wide, dense = inputs
        linear = self.linear_model(wide)
        deep = self.dnn_model(dense, training=training)
        return self.activation(tf.cast(linear, deep.dtype) + deep)


random = np.random.RandomState(2)
wide = random.randint(0, 2, (64, 6)).astype("float32")
dense = random.rand(64, 4).astype("float32")
labels = (wide[:, :1] + dense[:, :1] > 1.0).astype("float32")
dense[32] = 6e4  # the third batch overflows in the deep part

linear = tf.keras.Sequential(
    [tf.keras.layers.Dense(1, use_bias=False, dtype="float32")]
)
deep = tf.keras.Sequential(
    [tf.keras.layers.Dense(5, activation="relu"), tf.keras.layers.Dense(1)]
)
model = WideDeep(linear, deep)
model((wide[:1], dense[:1]))
model.set_weights(
    [random.normal(0, 0.3, w.shape).astype("float32") for w in model.get_weights()]
)

wide_optimizer = LossScaleOptimizer(
    tf.keras.optimizers.Ftrl(learning_rate=0.2), initial_scale=64.0
)
deep_optimizer = LossScaleOptimizer(
    tf.keras.optimizers.RMSprop(learning_rate=0.02, decay=0.05), initial_scale=512.0
)
bce = tf.keras.losses.BinaryCrossentropy(reduction=tf.keras.losses.Reduction.NONE)


@tf.function
def train_step(x, y):
    with tf.GradientTape(persistent=True) as tape:
        predictions = model(x, training=True)
        loss = tf.nn.compute_average_loss(bce(y, predictions), global_batch_size=16)
        linear_loss = wide_optimizer.get_scaled_loss(loss)
        deep_loss = deep_optimizer.get_scaled_loss(loss)
    linear_vars = model.linear_model.trainable_variables
    deep_vars = model.dnn_model.trainable_variables
    linear_grads = tape.gradient(linear_loss, linear_vars)
    deep_grads = tape.gradient(deep_loss, deep_vars)
    del tape
    linear_grads = wide_optimizer.get_unscaled_gradients(linear_grads)
    deep_grads = deep_optimizer.get_unscaled_gradients(deep_grads)
    wide_optimizer.apply_gradients(zip(linear_grads, linear_vars))
    deep_optimizer.apply_gradients(zip(deep_grads, deep_vars))
    return loss


losses = []
for _ in range(2):
    for start in range(0, 64, 16):
        part = slice(start, start + 16)
        loss = float(train_step((wide[part], dense[part]), labels[part]))
        losses.append(round(loss, 4) if np.isfinite(loss) else None)

result = {
    "loss": losses,
    "scale": [float(wide_optimizer.loss_scale), float(deep_optimizer.loss_scale)],
    "iterations": [int(wide_optimizer.iterations), int(deep_optimizer.iterations)],
    "rate": round(float(deep_optimizer.learning_rate), 4),
    "norms": [round(float(np.linalg.norm(w)), 4) for w in model.get_weights()],
}
print("RESULT", json.dumps(result))
