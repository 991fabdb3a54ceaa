"""The models of the recorded files: builders, batches and initial weights.

Written so that the same code runs on tf.keras of TensorFlow 2.1 and on Keras 3:
`build(name, keras)` takes the Keras module, and nothing here imports TensorFlow.
"""

import numpy as np

BATCH = 4
NONFINITE = (2, 8)  # these batches carry a NaN in their targets


# Builders


def chain(keras, name, x, *layers):
    """A model of layers one after the other."""
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


def tokens(keras, layer, name):
    x = keras.Input((4,), dtype="int32", name="tokens")
    embed = keras.layers.Embedding(6, 3, name="embed")
    return chain(keras, name, x, embed, layer, linear(keras, 1, "head"))


def lstm(keras):
    return tokens(keras, keras.layers.LSTM(3, name="rnn"), "lstm")


def gru(keras):
    return tokens(keras, keras.layers.GRU(3, name="rnn"), "gru")


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
    layers = tanh(keras, 4, "dense_a"), linear(keras, 1, "dense_b")
    return chain(keras, "net", x, *layers)


def net_bn(keras):
    x = keras.Input((3,), name="x")
    norm = keras.layers.BatchNormalization(momentum=0.9, name="norm")
    layers = tanh(keras, 4, "dense_a"), norm, linear(keras, 1, "dense_b")
    return chain(keras, "net_bn", x, *layers)


def generator(keras):
    z = keras.Input((2,), name="z")
    layers = tanh(keras, 4, "generate_a"), linear(keras, 3, "generate_b")
    return chain(keras, "generator", z, *layers)


def discriminator(keras):
    x = keras.Input((3,), name="image")
    layers = tanh(keras, 4, "judge_a"), linear(keras, 1, "judge_b")
    return chain(keras, "discriminator", x, *layers)


# Models of a name of their own, and others.
OWN = (two_inputs_bn, nested, lstm, gru, bilstm, conv, attention, subclassed)
OWN += (auto_named, generator, discriminator)
BUILDERS = {builder.__name__: builder for builder in OWN}
BUILDERS.update(dict.fromkeys(("net_opt", "mirrored", "schedule"), net))
OF_NET_BN = ("mirrored_bn", "save_weights_compiled", "compiled_checkpoint")
BUILDERS.update(dict.fromkeys(OF_NET_BN, net_bn))


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
