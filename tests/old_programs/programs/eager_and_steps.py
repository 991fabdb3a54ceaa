# fit() with run_eagerly, with steps_per_execution, from a dataset and a generator, and
# then a custom loop over the same compiled optimizer. Written for TF 2.4 - 2.15.
import json

import numpy as np
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_float16")
x = np.random.RandomState(0).rand(16, 2).astype("float32")
x[4] *= 1e6
y = np.zeros((16, 1), "float32")


def build():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="mixed_float16"),
            tf.keras.layers.Activation("linear", dtype="float32"),
        ]
    )


out = {}
for name, extra in (
    ("eager", {"run_eagerly": True}),
    ("several", {"steps_per_execution": 2}),
):
    model = build()
    model.compile(tf.keras.optimizers.SGD(0.1), loss="mse", **extra)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    model.fit(dataset, epochs=2, verbose=0)
    out[name] = [
        float(model.optimizer.loss_scale),
        int(model.optimizer.iterations),
        np.round(model.get_weights()[0].ravel(), 3).tolist(),
    ]


def batches():
    for i in range(0, 16, 4):
        yield x[i : i + 4], y[i : i + 4]


model = build()
model.build((None, 2))
model.compile(tf.keras.optimizers.SGD(0.1), loss="mse")
model.fit(batches(), steps_per_epoch=3, epochs=1, verbose=0)
opt = model.optimizer
with tf.GradientTape() as tape:
    scaled = opt.get_scaled_loss(tf.reduce_mean(model(x[:4]) ** 2))
grads = opt.get_unscaled_gradients(tape.gradient(scaled, model.trainable_variables))
opt.apply_gradients(zip(grads, model.trainable_variables))
out["mixed"] = [
    float(opt.loss_scale),
    int(opt.iterations),
    np.round(model.get_weights()[0].ravel(), 3).tolist(),
]
print(
    "RESULT",
    json.dumps(
        {
            "scale_iterations": [r[:2] for r in out.values()],
            "w": [r[2] for r in out.values()],
        }
    ),
)
