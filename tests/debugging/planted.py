"""Models in which one layer has a numerical problem, for Keras 2 and Keras 3.

Each function in `CASES` has one argument, the module of a Keras, and returns a `Case`.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_lso import debugging

HALF = {"dtype": "mixed_float16"}
FORWARD, BACKWARD = "forward overflow", "backward overflow"


def batch(*shape, value=1.0):
    values = np.linspace(0.5, 1, int(np.prod(shape)), dtype="float32") * value
    return values.reshape(shape)


X, Y = batch(4, 3), batch(4, 1)
X_OF_NAN = np.where(X == X[1, 2], np.nan, X)


def error(y, outputs):
    return tf.reduce_mean((tf.cast(outputs, tf.float32) - y) ** 2)


class Case(NamedTuple):
    """A model with the arguments of `explain`, and the problem that `explain` must find."""

    model: Any
    kind: str | None  # the kind of the problem, or None if there is no problem
    layer: str | None = "bad"  # the name of the layer with the problem
    scale: float = 1.0
    x: Any = X
    y: Any = Y
    loss: Any = error


def dense(keras, units, name, value=0.1, **kwargs):
    kernel = keras.initializers.Constant(value)
    arguments = {"name": name, "kernel_initializer": kernel, **HALF, **kwargs}
    return keras.layers.Dense(units, **arguments)


def owned(keras, name, function, inner=()):
    """Return a layer of a user's class, which calls `function(tensor, *inner)`.

    `inner` are layers that the returned layer contains.
    """

    class Own(keras.layers.Layer):
        def __init__(self):
            super().__init__(name=name, **HALF)
            self.inner = list(inner)

        def call(self, inputs):
            return function(inputs, *self.inner)

    return Own()


@tf.custom_gradient
def scaled_backward(x, factor):
    return tf.identity(x), lambda g: (g * tf.cast(factor, x.dtype), None)


def times_backward(keras, name, factor):
    """Return a layer that multiplies gradients by a factor, and changes nothing else."""
    return owned(keras, name, lambda x: scaled_backward(x, factor))


def sequential(keras, *layers):
    return keras.Sequential([keras.layers.Input((3,)), *layers])


def around(keras, bad, before=0.1, after=0.1):
    """Return a model with a Dense layer "a", the layer `bad`, and a Dense layer "b"."""
    last = dense(keras, 1, "b", after)
    return sequential(keras, dense(keras, 4, "a", before), bad, last)


def around_large(keras, **kwargs):
    return around(keras, dense(keras, 4, "bad", 60000, **kwargs), 2.0)


def functional(keras, function, shape=(3,), last=0.1):
    """Return a model that calls a function of the inputs, and then a Dense layer "b"."""
    inputs = keras.layers.Input(shape)
    return keras.Model(inputs, dense(keras, 1, "b", last)(function(inputs)))


def branches(keras, left, right, before=0.1):
    """Return a model with a Dense layer "stem", two branches, and a Dense layer "b"."""

    def joined(inputs):
        stem = dense(keras, 4, "stem", before)(inputs)
        return keras.layers.Add(name="sum", **HALF)([left(stem), right(stem)])

    return functional(keras, joined, last=1.0)


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


def of_integers(keras, layer, **kwargs):
    """Return a model for integers, with an Embedding, a layer, and a Dense layer "b"."""
    embedding = keras.layers.Embedding(5, 2, **HALF, **kwargs)
    inputs = keras.layers.Input((3,), dtype="int32")
    return keras.Sequential([inputs, embedding, layer, dense(keras, 1, "b")])


def healthy(keras):
    model = sequential(keras, dense(keras, 4, "a"), dense(keras, 1, "b"))
    return Case(model, None, None)


def operation_of_a_functional_model(keras):
    has_ops = hasattr(keras, "ops")
    exp = keras.ops.exp if has_ops else tf.exp
    model = functional(keras, lambda x: exp(dense(keras, 4, "a", 50.0)(x)))
    return Case(model, FORWARD, "exp" if has_ops else "tf.math.exp")


def layer_in_a_layer_in_a_layer(keras):
    inner = [dense(keras, 3, "a", 2.0), dense(keras, 3, "bad", 60000)]
    middle = owned(keras, "middle", lambda x, a, b: b(a(x)), inner)
    block = owned(keras, "block", lambda x, inner: inner(x), [middle])
    return Case(subclassed(keras, [block]), FORWARD)


def shared_layer_at_its_second_call(keras):
    bad = dense(keras, 3, "bad", 300.0)
    return Case(functional(keras, lambda x: bad(bad(x))), FORWARD)


def inner_layer_of_multi_head_attention(keras):
    heads = keras.layers.MultiHeadAttention(2, 2, name="heads", **HALF)
    flatten = keras.layers.Flatten()
    model = functional(keras, lambda x: flatten(heads(x, x)), (3, 2))
    names = [getattr(weight, "path", weight.name) for weight in heads.weights]
    (query,) = [w for w, n in zip(heads.weights, names) if "query/kernel" in n]
    query.assign(tf.fill(query.shape, 1e5))
    return Case(model, FORWARD, "query", x=batch(4, 3, 2))


def gradient_of_weights_alone(keras):
    bad = dense(keras, 1, "bad", 1e-3)
    model = sequential(keras, dense(keras, 4, "a", 10000.0), bad)
    return Case(model, BACKWARD, scale=64, y=Y * 50)


def float32_head_of_a_float16_model(keras):
    bad = dense(keras, 1, "bad", 1.0, dtype="float32")
    model = sequential(keras, dense(keras, 4, "a"), bad)
    return Case(model, BACKWARD, scale=2.0**20)


def gradient_that_needs_a_scale_below_1(keras):
    """At a large scale, the gradient overflows in the layers "b" and "later" too."""
    layers = [
        dense(keras, 4, "a"),
        times_backward(keras, "bad", 60000),
        times_backward(keras, "later", 2.0),
        dense(keras, 1, "b", 1.0),
    ]
    return Case(sequential(keras, *layers), BACKWARD, scale=2.0**15, y=Y * -4)


def backward_in_one_of_two_branches(keras):
    def branch(name, factor):
        inner = dense(keras, 4, f"{name}_dense")
        return lambda x: times_backward(keras, name, factor)(inner(x))

    model = branches(keras, branch("left", 2.0), branch("bad", 60000))
    return Case(model, BACKWARD, scale=1024)


CASES = {
    function.__name__: function
    for function in (
        healthy,
        operation_of_a_functional_model,
        layer_in_a_layer_in_a_layer,
        shared_layer_at_its_second_call,
        inner_layer_of_multi_head_attention,
        gradient_of_weights_alone,
        float32_head_of_a_float16_model,
        gradient_that_needs_a_scale_below_1,
        backward_in_one_of_two_branches,
    )
} | {
    "nan_in_x": lambda keras: Case(healthy(keras).model, "input", None, x=X_OF_NAN),
    "loss_of_nan": lambda keras: Case(
        healthy(keras).model,
        "forward nan",
        None,
        loss=lambda y, x: tf.math.log(-error(y, x)),
    ),
    "tiny_loss": lambda keras: Case(
        healthy(keras).model, "underflow", "b", loss=lambda y, x: error(y, x) * 1e-9
    ),
    "x_too_large_for_float16": lambda keras: Case(
        sequential(keras, dense(keras, 1, "bad")), FORWARD, x=X * 1e6
    ),
    "huge_kernel": lambda keras: Case(around_large(keras), FORWARD),
    "kernel_of_nan": lambda keras: Case(
        sequential(keras, dense(keras, 4, "bad", np.nan), dense(keras, 1, "b")),
        "forward nan",
    ),
    "softmax_after_an_overflow_in_the_layer": lambda keras: Case(
        around_large(keras, activation="softmax"), FORWARD
    ),
    "zero_by_zero": lambda keras: Case(
        around(keras, owned(keras, "bad", lambda x: (x - x) / (x - x))), "forward nan"
    ),
    "one_by_zero": lambda keras: Case(
        around(keras, owned(keras, "bad", lambda x: x / (x - x))), FORWARD
    ),
    "code_between_the_layers": lambda keras: Case(
        subclassed(keras, [dense(keras, 3, "a")], lambda x: tf.exp(x * 1e3)),
        FORWARD,
        "outer",
    ),
    "gradient_times": lambda keras: Case(
        around(keras, times_backward(keras, "bad", 60000), after=1.0),
        BACKWARD,
        scale=1024,
    ),
    "loss_of_a_float16_model_backward": lambda keras: Case(
        healthy(keras).model, BACKWARD, "b", scale=2.0**24
    ),
    "gradient_of_nan": lambda keras: Case(
        around(keras, times_backward(keras, "bad", np.nan)), "backward nan", scale=1024
    ),
    "backward_in_a_nested_model": lambda keras: Case(
        functional(
            keras,
            sequential(
                keras, dense(keras, 3, "inner"), times_backward(keras, "bad", 60000)
            ),
            last=1.0,
        ),
        BACKWARD,
        scale=1024,
    ),
    "backward_between_the_layers": lambda keras: Case(
        subclassed(keras, [dense(keras, 3, "a")], lambda x: scaled_backward(x, 60000)),
        BACKWARD,
        "outer",
        scale=2.0**15,
    ),
    "tiny_gradient": lambda keras: Case(
        around(keras, times_backward(keras, "bad", 1e-7)), "underflow"
    ),
    "dead_units_are_no_underflow": lambda keras: Case(
        around(keras, keras.layers.ReLU(name="relu", **HALF), -1.0), None, None
    ),
}


def explained(case, **kwargs):
    """Return the report of `explain` on a case."""
    if not case.model.built:  # a model of a subclass
        case.model(case.x)
    arguments = {"loss": case.loss, "loss_scale": case.scale, **kwargs}
    return debugging.explain(case.model, case.x, case.y, **arguments)
