"""Names of `tf.keras.experimental` and preprocessing, with a fixed loss scale."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.layers.experimental import preprocessing
from tensorflow.keras.preprocessing.image import (
    ImageDataGenerator,
)
from tensorflow.keras.preprocessing.sequence import pad_sequences
from tensorflow.keras.preprocessing.text import Tokenizer
from tensorflow.keras.utils import to_categorical

mp = tf.keras.mixed_precision.experimental
mp.set_policy(mp.Policy("mixed_float16", loss_scale=256))
t = Tokenizer(num_words=10, oov_token="<OOV>")
t.fit_on_texts(["a b c a", "b a d"])
seq = pad_sequences(
    t.texts_to_sequences(["a b", "c d e"]), maxlen=4, padding="post", truncating="post"
)
wide = tf.keras.experimental.LinearModel(kernel_initializer="ones")
deep = tf.keras.Sequential(
    [
        layers.Dense(4, kernel_initializer="ones"),
        layers.Dense(1, kernel_initializer="ones"),
    ]
)
wd = tf.keras.experimental.WideDeepModel(wide, deep)
x = np.random.RandomState(0).rand(16, 3).astype("float32")
y = x[:, :1]
wd.compile(["sgd", tf.keras.optimizers.SGD(1e-3)], "mse")
try:
    w = wd.fit([x, x], y, epochs=1, verbose=0, shuffle=False).history["loss"]
except Exception as e:
    w = repr(e)[:200]
norm = preprocessing.Normalization(dtype="float32")
norm.adapt(x)
rs = preprocessing.Rescaling(1.0 / 2)
aug = tf.keras.Sequential(
    [
        preprocessing.RandomFlip("horizontal"),
        preprocessing.RandomRotation(0.0),
        preprocessing.Resizing(4, 4),
        preprocessing.CenterCrop(2, 2),
    ]
)
img = aug(tf.ones((2, 6, 6, 3)), training=True)
tv = preprocessing.TextVectorization(
    max_tokens=10, output_mode="int", output_sequence_length=4
)
tv.adapt(np.array([["a b"], ["b c"]]))
gen = ImageDataGenerator(rescale=1 / 2.0, horizontal_flip=False, validation_split=0.2)
flow = gen.flow(
    np.ones((8, 4, 4, 3)), to_categorical([0, 1] * 4), batch_size=4, shuffle=False
)
cnn = tf.keras.Sequential(
    [
        layers.Conv2D(
            2,
            3,
            input_shape=(4, 4, 3),
            kernel_initializer=tf.keras.initializers.Constant(0.1),
        ),
        layers.BatchNormalization(fused=True),
        layers.experimental.SyncBatchNormalization(),
        layers.GlobalAveragePooling2D(),
        layers.Dense(2),
        layers.Activation("softmax", dtype="float32"),
    ]
)
cnn.layers[-2].set_weights([np.ones((2, 2)), np.zeros(2)])
sched = tf.keras.experimental.CosineDecayRestarts(0.1, 4)
s2 = tf.keras.experimental.CosineDecay(0.1, 10)
cnn.compile(
    tf.keras.optimizers.Adam(sched, amsgrad=True, epsilon=1e-4),
    "categorical_crossentropy",
    [
        "acc",
        tf.keras.metrics.AUC(name="auc"),
        tf.keras.metrics.TopKCategoricalAccuracy(k=1),
    ],
)
h = cnn.fit(flow, epochs=2, verbose=0)
print(
    "RESULT",
    json.dumps(
        {
            "seq": seq.tolist(),
            "wide": w,
            "norm": float(tf.reduce_mean(norm(x))),
            "rs": float(tf.reduce_mean(tf.cast(rs(tf.ones((2, 2))), tf.float32))),
            "img": list(img.shape),
            "tv": tv(np.array([["a b"]])).numpy().tolist(),
            "vocab": tv.get_vocabulary(),
            "loss": h.history["loss"],
            "keys": sorted(h.history),
            "lr": [float(s2(3))],
            "it": int(cnn.optimizer.iterations),
        }
    ),
)
