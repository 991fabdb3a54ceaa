"""Stateful LSTM in a functional model, reset between epochs."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.keras.layers import (
    GRU,
    LSTM,
    Bidirectional,
    Dense,
    Embedding,
    Input,
    TimeDistributed,
)
from tensorflow.keras.models import Model, Sequential, load_model

tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
inp = Input(batch_shape=(4, 5, 2))
k = tf.keras.initializers.Constant(0.1)
net = LSTM(
    3,
    stateful=True,
    return_sequences=True,
    kernel_initializer=k,
    recurrent_initializer=k,
    implementation=2,
    dtype="float32",
)(inp)
net = TimeDistributed(Dense(2, kernel_initializer=k))(net)
net = Bidirectional(
    GRU(2, kernel_initializer=k, recurrent_initializer=k, reset_after=True)
)(net)
out = Dense(1, dtype="float32", kernel_initializer=k)(net)
model = Model(inp, out)
model.compile(
    loss="mean_squared_error",
    optimizer=tf.keras.optimizers.RMSprop(lr=0.01, clipvalue=0.5),
)
x = np.random.RandomState(0).rand(16, 5, 2)
y = x[:, -1, :1]
losses = []
for i in range(3):
    h = model.fit(x, y, epochs=1, batch_size=4, verbose=0, shuffle=False)
    losses.append(h.history["loss"][0])
    model.reset_states()
before = model.predict(x[:4], batch_size=4)
after = model.predict(x[:4], batch_size=4)
model.reset_states()
again = model.predict(x[:4], batch_size=4)
model.save("m.h5")
other = load_model("m.h5")
other.reset_states()
s = Sequential(
    [
        Embedding(
            10, 4, batch_input_shape=[4, None], mask_zero=True, embeddings_initializer=k
        ),
        LSTM(
            4,
            stateful=True,
            return_sequences=True,
            recurrent_initializer="glorot_uniform",
            dtype="float32",
        ),
        Dense(10),
    ]
)
s.compile(
    optimizer="adam", loss=tf.losses.SparseCategoricalCrossentropy(from_logits=True)
)
s.fit(np.ones((4, 3)), np.ones((4, 3)), verbose=0)
s.reset_states()
print(
    "RESULT",
    json.dumps(
        {
            "losses": losses,
            "same": [
                bool(np.allclose(before, after)),
                bool(np.allclose(before, again)),
            ],
            "loaded": bool(
                np.allclose(other.predict(x[:4], batch_size=4), again, atol=1e-3)
            ),
            "scale": float(model.optimizer.loss_scale),
            "iterations": int(other.optimizer.iterations),
        }
    ),
)
