"""The models of the recorded files: builders, batches and initial weights.

Written so that the same code runs on tf.keras of TensorFlow 2.1 and on Keras 3:
`build(name, keras)` takes the Keras module, and nothing here imports TensorFlow.
"""

import numpy as np

BATCH = 4
NONFINITE = (2, 8)  # these batches carry a NaN in their targets


# Builders


def two_inputs_bn(keras):
    layers = keras.layers
    left = keras.Input((3,), name="left")
    right = keras.Input((2,), name="right")
    joined = layers.Concatenate(name="join")(
        [
            layers.Dense(4, activation="tanh", name="left_dense")(left),
            layers.Dense(3, activation="tanh", name="right_dense")(right),
        ]
    )
    normed = layers.BatchNormalization(momentum=0.9, name="norm")(joined)
    return keras.Model(
        [left, right], layers.Dense(1, name="head")(normed), name="two_inputs_bn"
    )


def nested(keras):
    layers = keras.layers
    inner = keras.Sequential(
        [
            layers.Dense(4, activation="tanh", input_shape=(3,), name="inner_a"),
            layers.Dense(3, name="inner_b"),
        ],
        name="inner",
    )
    entry = keras.Input((3,), name="block_input")
    hidden = layers.Dense(2, activation="tanh", name="block_dense")(entry)
    block = keras.Model(
        entry, layers.BatchNormalization(name="block_norm")(hidden), name="block"
    )
    x = keras.Input((3,), name="x")
    joined = layers.Concatenate(name="join")([inner(x), block(x)])
    return keras.Model(x, layers.Dense(1, name="head")(joined), name="nested")


def tokens(keras, layer, name):
    x = keras.Input((4,), dtype="int32", name="tokens")
    hidden = layer(keras.layers.Embedding(6, 3, name="embed")(x))
    return keras.Model(x, keras.layers.Dense(1, name="head")(hidden), name=name)


def lstm(keras):
    return tokens(keras, keras.layers.LSTM(3, name="rnn"), "lstm")


def gru(keras):
    return tokens(keras, keras.layers.GRU(3, name="rnn"), "gru")


def bilstm(keras):
    x = keras.Input((4, 3), name="x")
    hidden = keras.layers.Bidirectional(keras.layers.LSTM(2, name="rnn"), name="both")(
        x
    )
    return keras.Model(x, keras.layers.Dense(1, name="head")(hidden), name="bilstm")


def conv(keras):
    layers = keras.layers
    x = keras.Input((6, 6, 2), name="x")
    y = layers.Conv2D(3, 3, padding="same", activation="tanh", name="conv")(x)
    y = layers.LayerNormalization(name="norm")(y)
    y = layers.DepthwiseConv2D(3, activation="tanh", name="depthwise")(y)
    y = layers.SeparableConv2D(2, 3, activation="tanh", name="separable")(y)
    y = layers.GlobalAveragePooling2D(name="pool")(y)
    return keras.Model(x, layers.Dense(1, name="head")(y), name="conv")


def attention(keras):
    layers = keras.layers
    x = keras.Input((3, 4), name="x")
    y = layers.MultiHeadAttention(num_heads=2, key_dim=2, name="attention")(x, x)
    y = layers.LayerNormalization(name="norm")(y)
    y = layers.GlobalAveragePooling1D(name="pool")(y)
    return keras.Model(x, layers.Dense(1, name="head")(y), name="attention")


def subclassed(keras):
    layers = keras.layers

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__(name="subclassed")
            self.first = layers.Dense(4, activation="tanh", name="first")
            self.blocks = [
                layers.Dense(4, activation="tanh", name="block_0"),
                layers.Dense(4, activation="tanh", name="block_1"),
            ]
            self.heads = {
                "mean": layers.Dense(1, name="head_mean"),
                "extra": layers.Dense(1, name="head_extra"),
            }
            self.gain = self.add_weight(name="gain", shape=(), initializer="ones")

        def call(self, x):
            y = self.first(x)
            for block in self.blocks:
                y = block(y)
            return self.gain * self.heads["mean"](y) + 0.5 * self.heads["extra"](y)

    model = Subclassed()
    model(np.zeros((1, 3), "float32"))
    return model


def auto_named(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Dense(4, activation="tanh", input_shape=(3,)),
            layers.BatchNormalization(momentum=0.9),
            layers.Dense(3, activation="tanh"),
            layers.Dense(1),
        ]
    )


def net(keras):
    x = keras.Input((3,), name="x")
    y = keras.layers.Dense(4, activation="tanh", name="dense_a")(x)
    return keras.Model(x, keras.layers.Dense(1, name="dense_b")(y), name="net")


def net_bn(keras):
    x = keras.Input((3,), name="x")
    y = keras.layers.Dense(4, activation="tanh", name="dense_a")(x)
    y = keras.layers.BatchNormalization(momentum=0.9, name="norm")(y)
    return keras.Model(x, keras.layers.Dense(1, name="dense_b")(y), name="net_bn")


def generator(keras):
    z = keras.Input((2,), name="z")
    y = keras.layers.Dense(4, activation="tanh", name="generate_a")(z)
    return keras.Model(z, keras.layers.Dense(3, name="generate_b")(y), name="generator")


def discriminator(keras):
    x = keras.Input((3,), name="image")
    y = keras.layers.Dense(4, activation="tanh", name="judge_a")(x)
    return keras.Model(
        x, keras.layers.Dense(1, name="judge_b")(y), name="discriminator"
    )


BUILDERS = {
    "two_inputs_bn": two_inputs_bn,
    "nested": nested,
    "lstm": lstm,
    "gru": gru,
    "bilstm": bilstm,
    "conv": conv,
    "attention": attention,
    "subclassed": subclassed,
    "auto_named": auto_named,
    "generator": generator,
    "discriminator": discriminator,
    "net_opt": net,
    "mirrored": net,
    "mirrored_bn": net_bn,
    "schedule": net,
    "save_weights_compiled": net_bn,
    "compiled_checkpoint": net_bn,
}


def build(name, keras):
    """The model of an artifact, with its fixed initial weights.

    `gan` gives a dict of two models, every other name one model.
    """
    if name == "gan":
        return {part: build(part, keras) for part in ("generator", "discriminator")}
    model = BUILDERS[name](keras)
    model.set_weights(initial_weights(model))
    return model


def initial_weights(model):
    """Fixed weights in the order of `model.weights`."""
    random = np.random.RandomState(7)
    result = []
    for weight in model.weights:
        values = random.uniform(-0.5, 0.5, size=tuple(weight.shape))
        leaf = weight.name.split("/")[-1].split(":")[0]
        if leaf in ("gamma", "moving_variance", "gain"):
            values = values + 1.0
        result.append(values.astype("float32"))
    return result


# Batches

SHAPES = {
    "two_inputs_bn": [(3,), (2,)],
    "bilstm": [(4, 3)],
    "conv": [(6, 6, 2)],
    "attention": [(3, 4)],
    "gan": [(2,), (3,)],  # noise, real
}


def draw(name, seed):
    random = np.random.RandomState(seed)
    if name in ("lstm", "gru"):
        xs = [random.randint(0, 6, size=(BATCH, 4)).astype("int32")]
    else:
        xs = [
            random.uniform(-1, 1, size=(BATCH, *shape)).astype("float32")
            for shape in SHAPES.get(name, [(3,)])
        ]
    y = random.uniform(-1, 1, size=(BATCH, 1)).astype("float32")
    return xs, y


def batch(name, i):
    """Batch `i`: (x, y); x is a list where the model has several inputs.

    For `gan` x is [noise, real] and y is not used.
    """
    xs, y = draw(name, 1000 + i)
    if i in NONFINITE:
        target = xs[1] if name == "gan" else y
        target[1, 0] = np.nan
    return (xs if len(xs) > 1 else xs[0]), y


def probe(name):
    """Inputs of the recorded predictions."""
    xs, _ = draw(name, 99)
    return xs if len(xs) > 1 else xs[0]
