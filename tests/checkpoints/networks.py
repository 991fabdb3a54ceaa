"""The models in the `*-models` archives, with their batches and initial weights.

The same code made the record on `tf.keras` of TensorFlow 2.1, and builds the models of Keras 3.
So the functions have the Keras module as an argument, and this file does not import TensorFlow.
"""

import numpy as np

BATCH = 4
NONFINITE = (2, 8)  # the numbers of the batches with a NaN in their targets


# --- The models.


def chain(keras, name, x, *layers):
    """Return a model that applies the layers one after the other."""
    y = x
    for layer in layers:
        y = layer(y)
    return keras.Model(x, y, name=name)


def tanh(keras, units, name):
    return keras.layers.Dense(units, activation="tanh", name=name)


def linear(keras, units, name):
    return keras.layers.Dense(units, name=name)


def nested(keras):
    layers = keras.layers
    first = layers.Dense(4, activation="tanh", input_shape=(3,), name="inner_a")
    inner = keras.Sequential([first, linear(keras, 3, "inner_b")], name="inner")
    norm = layers.BatchNormalization(name="block_norm")
    entry = keras.Input((3,), name="block_input")
    block = chain(keras, "block", entry, tanh(keras, 2, "block_dense"), norm)
    x = keras.Input((3,), name="x")
    joined = layers.Concatenate(name="join")([inner(x), block(x)])
    return keras.Model(x, linear(keras, 1, "head")(joined), name="nested")


def lstm(keras):
    x = keras.Input((4,), dtype="int32", name="tokens")
    embed = keras.layers.Embedding(6, 3, name="embed")
    rnn = keras.layers.LSTM(3, name="rnn")
    return chain(keras, "lstm", x, embed, rnn, linear(keras, 1, "head"))


def bilstm(keras):
    x = keras.Input((4, 3), name="x")
    rnn = keras.layers.LSTM(2, name="rnn")
    both = keras.layers.Bidirectional(rnn, name="both")
    return chain(keras, "bilstm", x, both, linear(keras, 1, "head"))


def conv(keras):
    layers = keras.layers
    return chain(
        keras,
        "conv",
        keras.Input((6, 6, 2), name="x"),
        layers.Conv2D(3, 3, padding="same", activation="tanh", name="conv"),
        layers.LayerNormalization(name="norm"),
        layers.DepthwiseConv2D(3, activation="tanh", name="depthwise"),
        layers.SeparableConv2D(2, 3, activation="tanh", name="separable"),
        layers.GlobalAveragePooling2D(name="pool"),
        linear(keras, 1, "head"),
    )


def attention(keras):
    layers = keras.layers
    x = keras.Input((3, 4), name="x")
    attend = layers.MultiHeadAttention(num_heads=2, key_dim=2, name="attention")
    norm = layers.LayerNormalization(name="norm")
    pool = layers.GlobalAveragePooling1D(name="pool")
    head = linear(keras, 1, "head")
    return chain(keras, "attention", x, lambda x: attend(x, x), norm, pool, head)


def subclassed(keras):
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__(name="subclassed")
            self.first = tanh(keras, 4, "first")
            self.blocks = [tanh(keras, 4, f"block_{number}") for number in range(2)]
            self.heads = {n: linear(keras, 1, f"head_{n}") for n in ("mean", "extra")}
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
    first, second = tanh(keras, 4, "dense_a"), linear(keras, 1, "dense_b")
    return chain(keras, "net", x, first, second)


def net_bn(keras):
    x = keras.Input((3,), name="x")
    first, second = tanh(keras, 4, "dense_a"), linear(keras, 1, "dense_b")
    norm = keras.layers.BatchNormalization(momentum=0.9, name="norm")
    return chain(keras, "net_bn", x, first, norm, second)


# Maps the name of a model in the record to the function that builds it. The record also has
# some more models.
BUILDERS = {
    "attention": attention,
    "auto_named": auto_named,
    "bilstm": bilstm,
    "compiled_checkpoint": net_bn,
    "conv": conv,
    "lstm": lstm,
    "mirrored_bn": net_bn,
    "nested": nested,
    "net_opt": net,
    "save_weights_compiled": net_bn,
    "schedule": net,
    "subclassed": subclassed,
}


def build(name, keras):
    """Return a model with its initial weights."""
    model = BUILDERS[name](keras)
    model.set_weights(initial_weights(model))
    return model


def initial_weights(model):
    """Return the initial weights in the order of `model.weights`. They are always the same."""
    random = np.random.RandomState(7)
    result = []
    for weight in model.weights:
        values = random.uniform(-0.5, 0.5, size=tuple(weight.shape))
        leaf = weight.name.split("/")[-1].split(":")[0]
        if leaf in ("gamma", "moving_variance", "gain"):
            values = values + 1.0
        result.append(values.astype("float32"))
    return result


# --- The batches. Maps the name of a model to the shape of its input, if not (3,).

SHAPES = {"bilstm": (4, 3), "conv": (6, 6, 2), "attention": (3, 4)}


def batch(name, number):
    """Return the batch (x, y) of a model with this number."""
    random = np.random.RandomState(1000 + number)
    if name == "lstm":
        x = random.randint(0, 6, size=(BATCH, 4)).astype("int32")
    else:
        size = (BATCH, *SHAPES.get(name, (3,)))
        x = random.uniform(-1, 1, size=size).astype("float32")
    y = random.uniform(-1, 1, size=(BATCH, 1)).astype("float32")
    if number in NONFINITE:
        y[1, 0] = np.nan
    return x, y
