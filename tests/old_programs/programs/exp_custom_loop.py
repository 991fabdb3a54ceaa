# The guide of TF 2.1 - 2.3: LossScaleOptimizer(opt, "dynamic") or with a number, and
# opt.loss_scale() in the log. Written for TF 2.1 - 2.3.
import json
import sys

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.mixed_precision import experimental as mixed_precision

wanted = sys.argv[1] if len(sys.argv) > 1 else "dynamic"
loss_scale = wanted if wanted == "dynamic" else int(wanted)
policy = mixed_precision.Policy("mixed_float16")
mixed_precision.set_policy(policy)
inputs = tf.keras.Input(shape=(6,), name="digits")
x = layers.Dense(8, activation="relu", kernel_initializer="ones")(inputs)
x = layers.Dense(3, name="dense_logits", kernel_initializer="zeros")(x)
outputs = layers.Activation("softmax", dtype="float32", name="predictions")(x)
model = tf.keras.Model(inputs=inputs, outputs=outputs)
optimizer = tf.keras.optimizers.RMSprop()
optimizer = mixed_precision.LossScaleOptimizer(optimizer, loss_scale=loss_scale)
loss_object = tf.keras.losses.SparseCategoricalCrossentropy()
rng = np.random.RandomState(0)
x_train = rng.rand(40, 6).astype("float32")
y_train = rng.randint(0, 3, 40)
x_train[16:24] *= 1e6
dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train)).batch(8)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        predictions = model(x)
        loss = loss_object(y, predictions)
        scaled_loss = optimizer.get_scaled_loss(loss)
    scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(scaled_gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


scales, texts = [], []
for x, y in dataset:
    loss = train_step(x, y)
    scales.append(float(optimizer.loss_scale().numpy()))
    texts.append("%g" % optimizer.loss_scale())
weights = np.concatenate([w.flatten() for w in model.get_weights()])
result = {
    "scales": scales,
    "texts": texts,
    "iterations": int(optimizer.iterations),
    "finite": bool(np.isfinite(weights).all()),
}
print("RESULT", json.dumps(result))
