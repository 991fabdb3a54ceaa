"""Models with a trouble planted in one layer, for both Kerases.

Each function takes the module keras or tf_keras and returns a model, a batch, and what
is planted: the kind, the layer's name, and the loss scale.
"""

import dataclasses
import inspect
from typing import Any

import numpy as np
import tensorflow as tf

from tf_lso import debugging

HALF = {"dtype": "mixed_float16"}


@dataclasses.dataclass
class Case:
    model: Any
    kind: str | None
    layer: str | None
    scale: float = 1.0
    x: Any = None
    y: Any = None
    loss: Any = "mse"


def batch(*shape, value=1.0):
    values = np.linspace(0.5, 1, int(np.prod(shape)), dtype="float32") * value
    return values.reshape(shape)


X, Y = batch(4, 3), batch(4, 1)


def constant(keras, value):
    return keras.initializers.Constant(value)


def dense(keras, units, name, value=0.1, **kwargs):
    return keras.layers.Dense(
        units, name=name, kernel_initializer=constant(keras, value), **HALF, **kwargs
    )


def owned(keras, name, function, inner=()):
    """A layer of the program's own, which calls `function(tensor, *inner layers)`."""

    class Own(keras.layers.Layer):
        def __init__(self):
            super().__init__(name=name, **HALF)
            self.inner = list(inner)

        def call(self, inputs):
            return function(inputs, *self.inner)

    return Own()


def times_backward(keras, name, factor):
    """A layer that changes only gradients, by a factor."""

    @tf.custom_gradient
    def function(x):
        return tf.identity(x), lambda gradient: gradient * tf.cast(factor, x.dtype)

    return owned(keras, name, function)


def sequential(keras, *layers):
    return keras.Sequential([keras.layers.Input((3,)), *layers])


def around(keras, bad, before=0.1, after=0.1):
    """A model of a Dense layer "a", a layer `bad`, and a Dense layer "b"."""
    last = dense(keras, 1, "b", after)
    return sequential(keras, dense(keras, 4, "a", before), bad, last)


def healthy(keras):
    model = sequential(keras, dense(keras, 4, "a"), dense(keras, 1, "b"))
    return Case(model, None, None)


def nan_in_x(keras):
    x = X.copy()
    x[1, 2] = np.nan
    return Case(healthy(keras).model, "input", None, x=x)


def inf_in_y(keras):
    return Case(healthy(keras).model, "input", None, y=Y * np.inf)


def x_too_large_for_float16(keras):
    model = sequential(keras, dense(keras, 4, "bad"), dense(keras, 1, "b"))
    return Case(model, "forward overflow", "bad", x=X * 1e6)


def huge_kernel(keras):
    bad = dense(keras, 4, "bad", 60000)
    return Case(around(keras, bad, 2.0), "forward overflow", "bad")


def kernel_beyond_float16(keras):
    bad = dense(keras, 1, "bad", 1e6)
    return Case(sequential(keras, dense(keras, 4, "a"), bad), "forward overflow", "bad")


def kernel_of_nan(keras):
    bad = dense(keras, 4, "bad", np.nan)
    return Case(sequential(keras, bad, dense(keras, 1, "b")), "forward nan", "bad")


def softmax_after_an_overflow_in_the_layer(keras):
    bad = dense(keras, 4, "bad", 60000, activation="softmax")
    return Case(around(keras, bad, 2.0), "forward overflow", "bad")


def overflow_that_a_later_layer_hides(keras):
    bad = dense(keras, 4, "bad", 60000)
    tanh = keras.layers.Activation("tanh", name="tanh", **HALF)
    model = sequential(keras, dense(keras, 4, "a", 2.0), bad, tanh)
    return Case(model, "forward overflow", "bad", y=batch(4, 4))


def exponential(keras):
    bad = keras.layers.Activation("exponential", name="bad", **HALF)
    return Case(around(keras, bad, 50.0), "forward overflow", "bad")


def logarithm_of_a_negative(keras):
    bad = keras.layers.Lambda(lambda x: tf.math.log(-x), name="bad", **HALF)
    return Case(around(keras, bad), "forward nan", "bad")


def zero_by_zero(keras):
    bad = owned(keras, "bad", lambda x: (x - x) / (x - x))
    return Case(around(keras, bad), "forward nan", "bad")


def one_by_zero(keras):
    bad = owned(keras, "bad", lambda x: x / (x - x))
    return Case(around(keras, bad), "forward overflow", "bad")


def layer_normalization(keras):
    gamma = constant(keras, 60000.0)
    bad = keras.layers.LayerNormalization(name="bad", gamma_initializer=gamma, **HALF)
    model = sequential(keras, bad, dense(keras, 1, "b"))
    return Case(model, "forward overflow", "bad", x=np.eye(4, 3, dtype="float32"))


def convolution(keras):
    layers = keras.layers
    kernel = constant(keras, 30000.0)
    bad = layers.Conv2D(2, 3, name="bad", kernel_initializer=kernel, **HALF)
    model = keras.Sequential(
        [
            layers.Input((6, 6, 1)),
            layers.Conv2D(2, 3, padding="same", name="a", **HALF),
            layers.Lambda(tf.ones_like, name="ones", **HALF),
            bad,
            layers.GlobalAveragePooling2D(**HALF),
            dense(keras, 1, "b"),
        ]
    )
    return Case(model, "forward overflow", "bad", x=batch(4, 6, 6, 1))


def embedding(keras):
    layers = keras.layers
    bad = layers.Embedding(
        5, 2, name="bad", embeddings_initializer=constant(keras, 1e5), **HALF
    )
    model = keras.Sequential(
        [layers.Input((3,), dtype="int32"), bad, layers.Flatten(), dense(keras, 1, "b")]
    )
    x = np.arange(12, dtype="int32").reshape(4, 3) % 5
    return Case(model, "forward overflow", "bad", x=x)


def one_of_two_branches(keras):
    layers = keras.layers
    inputs = layers.Input((3,))
    shared = dense(keras, 4, "stem", 2.0)(inputs)
    left = dense(keras, 4, "left")(shared)
    right = dense(keras, 4, "bad", 60000)(shared)
    joined = layers.Add(name="sum", **HALF)([left, right])
    model = keras.Model(inputs, dense(keras, 1, "b")(joined))
    return Case(model, "forward overflow", "bad")


def operation_of_a_functional_model(keras):
    inputs = keras.layers.Input((3,))
    hidden = dense(keras, 4, "a", 50.0)(inputs)
    if hasattr(keras, "ops"):
        hidden, name = keras.ops.exp(hidden), "exp"
    else:
        hidden, name = tf.exp(hidden), "tf.math.exp"
    outputs = dense(keras, 1, "b")(hidden)
    return Case(keras.Model(inputs, outputs), "forward overflow", name)


def sequential_in_functional(keras):
    inner = sequential(
        keras, dense(keras, 4, "inner_a", 2.0), dense(keras, 3, "bad", 60000)
    )
    inputs = keras.layers.Input((3,))
    model = keras.Model(inputs, dense(keras, 1, "b")(inner(inputs)))
    return Case(model, "forward overflow", "bad")


def subclassed(keras, blocks, between=lambda x: x):
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__(name="outer", **HALF)
            self.blocks = list(blocks)
            self.head = dense(keras, 1, "head")

        def call(self, x):
            for block in self.blocks:
                x = between(block(x))
            return self.head(x)

    return Subclassed()


def list_of_blocks(keras):
    values = [2.0, 0.5, 60000, 1.0]
    names = ["block_0", "block_1", "bad", "block_3"]
    blocks = [dense(keras, 3, *one) for one in zip(names, values)]
    return Case(subclassed(keras, blocks), "forward overflow", "bad")


def code_between_the_layers(keras):
    blocks = [dense(keras, 3, "a")]
    model = subclassed(keras, blocks, lambda x: tf.exp(x * 1e3))
    return Case(model, "forward overflow", "outer")


def layer_in_a_layer_in_a_layer(keras):
    bad = dense(keras, 3, "bad", 60000)
    middle = owned(
        keras, "middle", lambda x, a, b: b(a(x)), [dense(keras, 3, "a", 2.0), bad]
    )
    block = owned(keras, "block", lambda x, inner: inner(x), [middle])
    return Case(subclassed(keras, [block]), "forward overflow", "bad")


def shared_layer_at_its_second_call(keras):
    inputs = keras.layers.Input((3,))
    bad = dense(keras, 3, "bad", 300.0)
    model = keras.Model(inputs, dense(keras, 1, "b")(bad(bad(inputs))))
    return Case(model, "forward overflow", "bad")


def lstm(keras):
    bad = keras.layers.LSTM(
        2,
        name="bad",
        activation="linear",
        kernel_initializer=constant(keras, 60000),
        **HALF,
    )
    model = keras.Sequential([keras.layers.Input((3, 2)), bad, dense(keras, 1, "b")])
    return Case(model, "forward overflow", "bad", x=batch(4, 3, 2, value=5))


def gru_backward(keras):
    gru = keras.layers.GRU(2, name="gru", **HALF)
    bad = times_backward(keras, "bad", 60000)
    model = keras.Sequential(
        [keras.layers.Input((3, 2)), gru, bad, dense(keras, 1, "b", 1.0)]
    )
    return Case(model, "backward overflow", "bad", scale=1024, x=batch(4, 3, 2))


def attention(keras):
    inputs = keras.layers.Input((3, 2))
    large = keras.layers.Lambda(lambda x: x * 1000, name="large", **HALF)(inputs)
    scores = keras.layers.Attention(name="bad", **HALF)([large, large])
    mean = keras.layers.GlobalAveragePooling1D(**HALF)(scores)
    model = keras.Model(inputs, dense(keras, 1, "b")(mean))
    return Case(model, "forward overflow", "bad", x=batch(4, 3, 2))


def inner_layer_of_multi_head_attention(keras):
    inputs = keras.layers.Input((3, 2))
    heads = keras.layers.MultiHeadAttention(2, 2, name="heads", **HALF)
    model = keras.Model(
        inputs, dense(keras, 1, "b")(keras.layers.Flatten()(heads(inputs, inputs)))
    )
    query = next(
        v for v in heads.weights if "query/kernel" in getattr(v, "path", v.name)
    )
    query.assign(tf.fill(query.shape, 1e5))
    return Case(model, "forward overflow", "query", x=batch(4, 3, 2))


def loss_of_nan(keras):
    def loss(y, outputs):
        return tf.reduce_mean(tf.math.log(-tf.abs(tf.cast(outputs, tf.float32)) - y))

    return Case(healthy(keras).model, "forward nan", None, loss=loss)


def gradient_times(keras):
    bad = times_backward(keras, "bad", 60000)
    return Case(around(keras, bad, after=1.0), "backward overflow", "bad", scale=1024)


def huge_kernel_on_small_values(keras):
    bad = dense(keras, 4, "bad", 60000)
    small = dense(keras, 4, "small", 1e-5)
    model = sequential(keras, small, bad, dense(keras, 1, "b", 1.0))
    return Case(model, "backward overflow", "bad", scale=256, y=Y * 50)


def gradient_of_weights_alone(keras):
    bad = dense(keras, 1, "bad", 1e-3)
    model = sequential(keras, dense(keras, 4, "a", 10000.0), bad)
    return Case(model, "backward overflow", "bad", scale=64, y=Y * 50)


def float32_head_of_a_float16_model(keras):
    bad = keras.layers.Dense(
        1, name="bad", kernel_initializer=constant(keras, 1.0), dtype="float32"
    )
    model = sequential(keras, dense(keras, 4, "a"), bad)
    return Case(model, "backward overflow", "bad", scale=2.0**20)


def loss_of_a_float16_model(keras):
    return Case(healthy(keras).model, "backward overflow", "b", scale=2.0**24)


def gradient_of_nan(keras):
    bad = times_backward(keras, "bad", np.nan)
    return Case(around(keras, bad), "backward nan", "bad", scale=1024)


def norm_at_zero(keras):
    bad = owned(keras, "bad", lambda x: x + tf.norm(x * 0, axis=-1, keepdims=True))
    return Case(around(keras, bad), "backward nan", "bad")


def backward_in_one_of_two_branches(keras):
    layers = keras.layers
    inputs = layers.Input((3,))
    stem = dense(keras, 4, "stem")(inputs)
    left = times_backward(keras, "left", 2.0)(dense(keras, 4, "left_dense")(stem))
    right = times_backward(keras, "bad", 60000)(dense(keras, 4, "right_dense")(stem))
    joined = layers.Add(name="sum", **HALF)([left, right])
    model = keras.Model(inputs, dense(keras, 1, "b", 1.0)(joined))
    return Case(model, "backward overflow", "bad", scale=1024)


def backward_in_a_nested_model(keras):
    bad = times_backward(keras, "bad", 60000)
    inner = sequential(keras, dense(keras, 3, "inner_a"), bad)
    inputs = keras.layers.Input((3,))
    model = keras.Model(inputs, dense(keras, 1, "b", 1.0)(inner(inputs)))
    return Case(model, "backward overflow", "bad", scale=1024)


def backward_between_the_layers(keras):
    @tf.custom_gradient
    def between(x):
        return tf.identity(x), lambda gradient: gradient * tf.cast(60000, x.dtype)

    model = subclassed(keras, [dense(keras, 3, "a")], between)
    return Case(model, "backward overflow", "outer", scale=2.0**15)


def backward_between_two_calls_of_a_layer(keras):
    inputs = keras.layers.Input((3,))
    shared = dense(keras, 3, "shared", 0.5)
    bad = times_backward(keras, "bad", 60000)
    outputs = dense(keras, 1, "b", 1.0)(shared(bad(shared(inputs))))
    return Case(keras.Model(inputs, outputs), "backward overflow", "bad", scale=1024)


def tiny_gradient(keras):
    bad = times_backward(keras, "bad", 1e-7)
    return Case(around(keras, bad), "underflow", "bad")


def tiny_loss(keras):
    def loss(y, outputs):
        return tf.reduce_mean((tf.cast(outputs, tf.float32) - y) ** 2) * 1e-9

    return Case(healthy(keras).model, "underflow", "b", loss=loss)


def tiny_kernel(keras):
    bad = dense(keras, 4, "bad", 1e-6)
    return Case(around(keras, bad, after=0.01), "underflow", "bad")


def dead_units_are_no_underflow(keras):
    relu = keras.layers.ReLU(name="relu", **HALF)
    return Case(around(keras, relu, -1.0), None, None)


CASES = {
    name: function
    for name, function in list(globals().items())
    if str(getattr(function, "__code__", None) and inspect.signature(function))
    == "(keras)"
}


def explained(case, **kwargs):
    """The report of `explain` on a case."""
    x = X if case.x is None else case.x
    y = Y if case.y is None else case.y
    arguments = {"loss": case.loss, "loss_scale": case.scale, **kwargs}
    if not case.model.built:  # a subclass
        case.model(x)
    return debugging.explain(case.model, x, y, **arguments)
