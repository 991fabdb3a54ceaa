"""compat.v1 behaviours: sessions, a Keras model without eager execution, old policy."""

import json

import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()
K = tf.keras.backend
sess = tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(allow_soft_placement=True))
tf.compat.v1.keras.backend.set_session(sess)
tf.keras.mixed_precision.experimental.set_policy(
    tf.keras.mixed_precision.experimental.Policy("mixed_float16", loss_scale=64)
)
model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(
            4, activation="relu", input_shape=(3,), kernel_initializer="ones"
        ),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.Dense(1, dtype="float32", kernel_initializer="ones"),
    ]
)
model.compile(tf.keras.optimizers.Adam(lr=1e-3), "mse", metrics=["mae"])
x = np.random.RandomState(0).rand(16, 3).astype("float32")
y = x[:, :1]
h = model.fit(x, y, batch_size=4, epochs=2, verbose=0, shuffle=False)
g = K.function([model.input, K.learning_phase()], [model.output])
o = g([x, 0])[0]
K.set_value(model.optimizer.lr, 1e-4)
print(
    "RESULT",
    json.dumps(
        {
            "loss": h.history["loss"],
            "o": float(o.mean()),
            "lr": float(K.get_value(model.optimizer.lr)),
            "opt": hasattr(model.optimizer, "loss_scale"),
            "it": int(K.get_value(model.optimizer.iterations)),
            "ev": [float(v) for v in model.evaluate(x, y, verbose=0)],
        }
    ),
)
