"""A small training program for each family, and functions that compare its state."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, OLD_KERAS3, legacy_step, numpy
from tf_lso.keras.mixed_precision import experimental

needs_saving = pytest.mark.skipif(
    OLD_KERAS3,
    reason="Keras 3.0 saves neither checkpoints nor .h5 files nor copies of models",
)
SAVED_AT, END = 6, 12  # the steps after which a program is saved, and ends
_X = np.random.RandomState(0).rand(END, 4, 3).astype("float32")
_Y = _X.sum(2, keepdims=True)
_OVERFLOWS = [1, 4, 8]  # the steps with infinite inputs

# The inner optimizers. They differ in their slots and in other state.
INNER = {
    "momentum": lambda family: FAMILIES[family].SGD(0.05, momentum=0.9),
    "amsgrad": lambda family: FAMILIES[family].Adam(0.02, amsgrad=True),
    "nadam": lambda family: FAMILIES[family].Nadam(0.02),
    "ema": lambda family: FAMILIES[family].Adam(
        0.02, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3
    ),
    "accumulation": lambda family: FAMILIES[family].SGD(
        0.05, momentum=0.9, gradient_accumulation_steps=2
    ),
}
# The families of Keras 2 lack these optimizers. The newer Nadam exists, but cannot continue bit
# for bit, because a part of its state is a Python number that is not saved.
_LACKS = {"legacy": ("ema", "accumulation"), "new": ("nadam", "accumulation")}


def exists(family, inner):
    """Return whether a family has an inner optimizer that can continue bit for bit."""
    return inner not in _LACKS.get(family, ())


# The arguments of the constructor `tf_lso.LossScaleOptimizer`.
SCALES = {
    "stable": {"initial_scale": 64.0, "dynamic_growth_steps": 3},
    "fixed": {"dynamic": False, "initial_scale": 8.0},
}


def make_optimizer(
    family, inner="amsgrad", api="stable", wrap=tf_lso.LossScaleOptimizer
):
    """Return a wrapped optimizer. `api` is "stable", "fixed" or "experimental"."""
    optimizer = INNER[inner](family)
    if api == "experimental":
        scale = tf_lso.DynamicLossScale(64.0, increment_period=3, multiplier=4.0)
        return experimental.LossScaleOptimizer(optimizer, scale)
    return wrap(optimizer, **SCALES[api])


def make_model(family, seed):
    """Return a model of two layers. Its initial weights depend only on the seed."""
    keras = KERASES[family]
    # Give each layer a seed, because tf_keras 2.17 and 2.18 cannot use the seed of
    # `set_random_seed` in Python 3.12.
    glorot, layers = keras.initializers.GlorotUniform, keras.layers
    return keras.Sequential(
        [
            layers.InputLayer((3,)),
            layers.Dense(2, "tanh", name="a", kernel_initializer=glorot(seed)),
            layers.Dense(
                1, use_bias=False, name="b", kernel_initializer=glorot(seed + 1)
            ),
        ]
    )


def compile_model(family, model, optimizer):
    """Compile a model without XLA. tests/optimizers have tests of `fit` with XLA."""
    no_xla = {"jit_compile": False} if family == "keras3" else {}
    # If the loss were given by its name, Keras 3 could not load the model from an .h5 file.
    loss = KERASES[family].losses.MeanSquaredError()
    model.compile(optimizer, loss, **no_xla)


class Program:
    """Makes models with their optimizers, and trains them.

    Attributes:
      family: the name of the optimizer family.
      loop: how the program trains: "eager" and "function" by a custom loop, "fit" by Keras.
      strategy: a tf.distribute.Strategy, or None.
      checkpoint_status: what TensorFlow returned when the last checkpoint was restored.
    """

    def __init__(
        self, family, inner="amsgrad", api="stable", loop="eager", strategy=None
    ):
        self.family, self.loop, self.strategy = family, loop, strategy
        self.checkpoint_status = None
        self._arguments = (inner, api)
        self._steps = {}
        self._x = _X.copy()
        if api != "fixed":  # a fixed scale skips no step
            self._x[_OVERFLOWS] = np.inf

    def make(self, seed=9, optimizer=None, *, built=False, compiled=True):
        """Return a new model and its optimizer.

        A program that saves uses seed 1. With the default seed, the model has other weights.
        `built` builds the optimizer, and `compiled` compiles the model.
        """
        with self.scope():
            model = make_model(self.family, seed)
            optimizer = optimizer or make_optimizer(self.family, *self._arguments)
            if built:
                optimizer.build(model.trainable_variables)
            if compiled:
                compile_model(self.family, model, optimizer)
        return model, optimizer

    def scope(self, name=None):
        """Return the scope in which to make the program, or to save it in a format."""
        # Keras 3 refuses to save .h5 files in the scope of a strategy.
        if self.strategy is None or (name, self.family) == (".h5", "keras3"):
            return contextlib.nullcontext()
        return self.strategy.scope()

    def data(self, start=0, end=END):
        """Return the batches of some steps as a dataset.

        `fit` would make a dataset of arrays, too, but would trace more functions.
        """
        return tf.data.Dataset.from_tensor_slices((self._x[start:end], _Y[start:end]))

    def train(self, model, optimizer, start, end):
        if self.loop == "fit":
            with self.scope():
                model.fit(self.data(start, end), shuffle=False, verbose=0)
            return
        step = self._step_of(model, optimizer)
        for x, y in zip(self._x[start:end], _Y[start:end]):
            step(tf.constant(x), tf.constant(y))

    def _step_of(self, model, optimizer):
        """Return the step function of an optimizer, the same one in each call."""
        # The step functions keep the optimizers alive, so no id is used again.
        if id(optimizer) in self._steps:
            return self._steps[id(optimizer)]

        with self.scope():
            variables = model.trainable_variables

        def on_replica(x, y):
            def loss():
                return tf.reduce_mean((model(x, training=True) - y) ** 2)

            legacy_step(optimizer, loss, variables)

        def step(x, y):
            strategy = self.strategy or tf.distribute.get_strategy()
            strategy.run(on_replica, (x, y))

        step = tf.function(step) if self.loop == "function" else step
        self._steps[id(optimizer)] = step
        return step


def state(model, optimizer):
    """Return a dict of the whole state of a model and its optimizer, as arrays by names."""
    found = {f"weight {i}": w for i, w in enumerate(model.get_weights())}
    inner = optimizer.inner_optimizer
    if isinstance(inner, FAMILIES["legacy"].Optimizer):
        for name in inner.get_slot_names():
            for i, variable in enumerate(model.trainable_variables):
                found[f"{name} {i}"] = numpy(inner.get_slot(variable, name))
    else:
        for i, variable in enumerate(inner.variables):
            found[f"variable {i}"] = numpy(variable)
    for name in ("_u_product", "_m_cache"):  # further state of Nadam
        variable = getattr(inner, name, None)
        if variable is not None:
            found[name] = numpy(variable)
    found["iterations"] = np.asarray(optimizer.iterations)
    found["scale"] = np.asarray(tf.convert_to_tensor(optimizer.loss_scale))
    if optimizer.dynamic:
        found["count"] = numpy(optimizer.dynamic_counter)
    return found


def assert_equal(expected, actual):
    """Check that two results of `state` are equal bit for bit."""
    assert expected.keys() == actual.keys()
    different = [
        name
        for name in expected
        if not np.array_equal(expected[name], actual[name], equal_nan=True)
    ]
    assert not different, f"not restored: {different}"


def assert_same_weights(expected, actual):
    assert_equal(
        dict(enumerate(expected.get_weights())), dict(enumerate(actual.get_weights()))
    )
