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


def two_inputs_bn(keras):
    left = keras.Input((3,), name="left")
    right = keras.Input((2,), name="right")
    joined = keras.layers.Concatenate(name="join")(
        [tanh(keras, 4, "left_dense")(left), tanh(keras, 3, "right_dense")(right)]
    )
    normed = keras.layers.BatchNormalization(momentum=0.9, name="norm")(joined)
    outputs = linear(keras, 1, "head")(normed)
    return keras.Model([left, right], outputs, name="two_inputs_bn")


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


def tokens(keras, layer):
    x = keras.Input((4,), dtype="int32", name="tokens")
    embed = keras.layers.Embedding(6, 3, name="embed")
    rnn = getattr(keras.layers, layer)(3, name="rnn")
    return chain(keras, layer.lower(), x, embed, rnn, linear(keras, 1, "head"))


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


def two_layers(keras, name, x, size, first, second, units=1, normed=False):
    norm = keras.layers.BatchNormalization(momentum=0.9, name="norm")
    layers = tanh(keras, 4, first), *[norm] * normed, linear(keras, units, second)
    return chain(keras, name, keras.Input((size,), name=x), *layers)


DENSE = ("x", 3, "dense_a", "dense_b")
NET = (two_layers, "net", *DENSE)
NET_BN = (two_layers, "net_bn", *DENSE, 1, True)
# Maps the name of a model to its builder and the builder's arguments after the Keras module.
BUILDERS = {
    "lstm": (tokens, "LSTM"),
    "gru": (tokens, "GRU"),
    "generator": (two_layers, "generator", "z", 2, "generate_a", "generate_b", 3),
    "discriminator": (two_layers, "discriminator", "image", 3, "judge_a", "judge_b"),
    **dict.fromkeys(("net_opt", "mirrored", "schedule"), NET),
    **dict.fromkeys(("mirrored_bn", "save_weights_compiled"), NET_BN),
    "compiled_checkpoint": NET_BN,
}
OTHERS = (two_inputs_bn, nested, bilstm, conv, attention, subclassed, auto_named)
BUILDERS.update((builder.__name__, (builder,)) for builder in OTHERS)


def build(name, keras):
    """Return a model with its initial weights, or a dict of two such models for "gan"."""
    if name == "gan":
        return {part: build(part, keras) for part in ("generator", "discriminator")}
    builder, *arguments = BUILDERS[name]
    model = builder(keras, *arguments)
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


# --- The batches. Maps the name of a model to the shapes of its inputs, if not [(3,)].

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
    """Return the batch (x, y) with the number `i`.

    If the model has several inputs, x is a list. For "gan", x is [noise, real], and y is not
    used.
    """
    xs, y = draw(name, 1000 + i)
    if i in NONFINITE:
        target = xs[1] if name == "gan" else y
        target[1, 0] = np.nan
    return (xs if len(xs) > 1 else xs[0]), y


def probe(name):
    """Return the inputs of the recorded predictions."""
    xs, _ = draw(name, 99)
    return xs if len(xs) > 1 else xs[0]
