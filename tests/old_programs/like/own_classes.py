"""Own layers, losses, metrics, schedule and callbacks, as of a transformer tutorial of 2020."""

import json

import numpy as np
import tensorflow as tf

K = tf.keras.backend
tf.keras.mixed_precision.experimental.set_policy("mixed_float16")


class Warmup(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, d, warmup=4):
        super().__init__()
        self.d = tf.cast(d, tf.float32)
        self.warmup = warmup

    def __call__(self, step):
        return tf.math.rsqrt(self.d) * tf.math.minimum(
            tf.math.rsqrt(step), step * self.warmup**-1.5
        )

    def get_config(self):
        return {"d": float(self.d), "warmup": self.warmup}


class Attention(tf.keras.layers.Layer):
    def __init__(self, units, **kw):
        super().__init__(**kw)
        self.units = units
        self.supports_masking = True

    def build(self, s):
        self.w = self.add_weight(
            shape=(int(s[-1]), self.units), initializer="ones", trainable=True, name="w"
        )
        self.b = (
            self.add_variable("b", (self.units,), initializer="zeros")
            if hasattr(self, "add_variable")
            else 0.0
        )
        super().build(s)

    def call(self, x, mask=None, training=None):
        a = tf.nn.softmax(
            tf.cast(
                x @ tf.cast(self.w, x.dtype) + tf.cast(self.b, x.dtype), tf.float32
            ),
            axis=1,
        )
        if training:
            self.add_loss(lambda: 1e-3 * tf.reduce_sum(self.w**2))
        self.add_metric(tf.reduce_mean(a), name="attention", aggregation="mean")
        return tf.reduce_sum(tf.cast(a, x.dtype) * x, axis=1)

    def compute_mask(self, x, mask=None):
        return None

    def get_config(self):
        c = super().get_config().copy()
        c.update({"units": self.units})
        return c


def dice(y, p, smooth=1.0):
    y, p = K.flatten(y), K.flatten(p)
    return 1 - (2 * K.sum(y * p) + smooth) / (K.sum(y) + K.sum(p) + smooth)


class F1(tf.keras.metrics.Metric):
    def __init__(self, name="f1", **kw):
        super().__init__(name=name, **kw)
        self.tp = self.add_weight(name="tp", initializer="zeros")
        self.n = self.add_weight("n", initializer="zeros")

    def update_state(self, y, p, sample_weight=None):
        self.tp.assign_add(tf.reduce_sum(tf.cast(y, tf.float32) * tf.round(p)))
        self.n.assign_add(tf.cast(tf.size(y), tf.float32))

    def result(self):
        return self.tp / (self.n + K.epsilon())

    def reset_states(self):
        self.tp.assign(0.0)
        self.n.assign(0.0)


calls = []


class Log(tf.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.params.get("epochs")

    def on_batch_end(self, batch, logs={}):
        calls.append(batch)

    def on_train_batch_end(self, batch, logs=None):
        calls.append(
            float(
                K.get_value(
                    self.model.optimizer.lr(
                        tf.cast(self.model.optimizer.iterations, tf.float32)
                    )
                    if callable(self.model.optimizer.lr)
                    else self.model.optimizer.lr
                )
            )
        )


inp = tf.keras.layers.Input((5, 4))
net = tf.keras.layers.Masking()(inp)
net = Attention(4)(net)
net = tf.keras.layers.Lambda(lambda t: K.l2_normalize(t, axis=-1))(net)
out = tf.keras.layers.Dense(
    1, activation="sigmoid", dtype="float32", kernel_initializer="ones"
)(net)
model = tf.keras.models.Model(inputs=[inp], outputs=[out])
opt = tf.keras.optimizers.Adam(Warmup(16), beta_1=0.9, beta_2=0.98, epsilon=1e-9)
x = np.random.RandomState(0).rand(16, 5, 4).astype("float32")
y = (np.arange(16) % 2).reshape(-1, 1).astype("float32")
try:
    model.compile(opt, loss=dice, metrics=[F1(), "binary_accuracy"])
    h = model.fit(
        x,
        y,
        batch_size=4,
        epochs=2,
        verbose=0,
        shuffle=False,
        callbacks=[Log()],
        sample_weight=np.ones(16),
    )
except Exception as e:
    print("ERR", repr(e)[:800])
    raise
model.save("m.h5")
a = tf.keras.models.load_model(
    "m.h5",
    custom_objects={"Attention": Attention, "dice": dice, "F1": F1, "Warmup": Warmup},
    compile=False,
)
print(
    "RESULT",
    json.dumps(
        {
            "h": {k: [float(i) for i in v] for k, v in h.history.items()},
            "calls": len(calls),
            "lr": [c for c in calls if isinstance(c, float)][:3],
            "same": bool(np.allclose(a.predict(x), model.predict(x), atol=1e-3)),
            "it": int(model.optimizer.iterations),
        }
    ),
)
