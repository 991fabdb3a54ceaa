# OneDeviceStrategy, fit() with a schedule and LambdaCallback, and train_on_batch.
# Written for TF 2.4 - 2.15.
import json

import numpy as np
import tensorflow as tf

strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
tf.keras.mixed_precision.set_global_policy(
    tf.keras.mixed_precision.Policy("mixed_float16")
)
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(8, activation="relu", kernel_initializer="ones"),
            tf.keras.layers.Dense(3, kernel_initializer="zeros"),
            tf.keras.layers.Activation("softmax", dtype="float32"),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.RMSprop(0.01),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
rng = np.random.RandomState(0)
x = rng.rand(24, 4).astype("float32")
y = rng.randint(0, 3, 24)
scales = []
callback = tf.keras.callbacks.LambdaCallback(
    on_epoch_end=lambda epoch, logs: scales.append(float(model.optimizer.loss_scale))
)
h = model.fit(
    x, y, batch_size=8, epochs=3, shuffle=False, verbose=0, callbacks=[callback]
)
x[0] = 1e9
model.train_on_batch(x[:8], y[:8])
opt = model.optimizer
result = {
    "scales": scales,
    "after_scale": float(opt.loss_scale),
    "loss": [round(v, 3) for v in h.history["loss"]],
    "iterations": int(opt.iterations),
    "compute": model.layers[0].compute_dtype,
    "finite": bool(np.isfinite(model.predict(x[8:], verbose=0)).all()),
}
print("RESULT", json.dumps(result))
