"""A small training program for each family, and all state that it has."""

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
SAVED_AT, END = 6, 12
_X = np.random.RandomState(0).rand(END, 4, 3).astype("float32")
_Y = _X.sum(2, keepdims=True)
_OVERFLOWS = [1, 4, 8]

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
APIS = ("stable", "experimental", "fixed")
LOOPS = ("eager", "function", "fit")


# A part of the state of the newer Nadam of tf_keras is a Python number.
_LACKS = {"legacy": ("ema", "accumulation"), "new": ("nadam", "accumulation")}


def exists(family, inner):
    """Whether the family has the inner optimizer, and it can go on bit for bit."""
    return inner not in _LACKS.get(family, ())


SCALES = {
    "stable": {"initial_scale": 64.0, "dynamic_growth_steps": 3},
    "fixed": {"dynamic": False, "initial_scale": 8.0},
}


def make_optimizer(
    family, inner="amsgrad", api="stable", wrap=tf_lso.LossScaleOptimizer
):
    optimizer = INNER[inner](family)
    if api == "experimental":
        scale = tf_lso.DynamicLossScale(64.0, 3, 4.0)
        return experimental.LossScaleOptimizer(optimizer, scale)
    return wrap(optimizer, **SCALES[api])


def make_model(family, seed):
    module = KERASES[family]
    # tf_keras 2.17 and 2.18 cannot use a seed of `set_random_seed` in Python 3.12.
    first, second = (module.initializers.GlorotUniform(seed + n) for n in range(2))
    layers = module.layers
    return module.Sequential(
        [
            layers.InputLayer((3,)),
            layers.Dense(2, "tanh", name="a", kernel_initializer=first),
            layers.Dense(1, use_bias=False, name="b", kernel_initializer=second),
        ]
    )


def compile_model(family, model, optimizer):
    """Compile it, without XLA that Keras 3 would choose; tests/optimizers have that."""
    no_xla = {"jit_compile": False} if family == "keras3" else {}
    # By its name Keras 3 would not find the loss of an .h5 file.
    loss = KERASES[family].losses.MeanSquaredError()
    model.compile(optimizer, loss, **no_xla)


class Program:
    """A model, its optimizer, and how they are trained; by a strategy where one is given."""

    def __init__(self, family, inner="amsgrad", api="stable", loop="eager", by=None):
        self.family, self.loop, self.strategy = family, loop, by
        self.arguments = (inner, api)
        self.steps = {}
        self.x = _X.copy()
        if api != "fixed":  # which skips no step
            self.x[_OVERFLOWS] = np.inf

    def make(self, seed=9, optimizer=None, *, built=False, compiled=True):
        """Return a new model and optimizer, with other weights than the one that saves."""
        with self.scope():
            model = make_model(self.family, seed)
            optimizer = optimizer or make_optimizer(self.family, *self.arguments)
            if built:
                optimizer.build(model.trainable_variables)
            if compiled:
                compile_model(self.family, model, optimizer)
        return model, optimizer

    def scope(self, name=None):
        """What the program is made in, and saved in the format `name`."""
        # Keras 3 cannot save .h5 files in a scope, and says so.
        if self.strategy is None or (name, self.family) == (".h5", "keras3"):
            return contextlib.nullcontext()
        return self.strategy.scope()

    def data(self, start=0, end=END):
        """The batches as a dataset; of arrays Keras makes its own, which traces more."""
        return tf.data.Dataset.from_tensor_slices((self.x[start:end], _Y[start:end]))

    def train(self, model, optimizer, start, end):
        if self.loop == "fit":
            with self.scope():
                model.fit(self.data(start, end), shuffle=False, verbose=0)
            return
        step = self.step(model, optimizer)
        for x, y in zip(self.x[start:end], _Y[start:end]):
            step(tf.constant(x), tf.constant(y))

    def step(self, model, optimizer):
        """The step of an optimizer, traced once where it is traced."""
        if id(optimizer) in self.steps:  # which hold the optimizers
            return self.steps[id(optimizer)]

        with self.scope():
            variables = model.trainable_variables

        def on_replica(x, y):
            def loss():
                return tf.reduce_mean((model(x, training=True) - y) ** 2)

            legacy_step(optimizer, loss, variables)

        def step(x, y):
            run = (self.strategy or tf.distribute.get_strategy()).run
            run(on_replica, (x, y))

        step = tf.function(step) if self.loop == "function" else step
        return self.steps.setdefault(id(optimizer), step)


def state(model, optimizer):
    found = {f"weight {i}": w for i, w in enumerate(model.get_weights())}
    inner = optimizer.inner_optimizer
    if isinstance(inner, FAMILIES["legacy"].Optimizer):
        for name in inner.get_slot_names():
            for i, variable in enumerate(model.trainable_variables):
                found[f"{name} {i}"] = numpy(inner.get_slot(variable, name))
    else:
        for i, variable in enumerate(inner.variables):
            found[f"variable {i}"] = numpy(variable)
    of_nadam = {name: getattr(inner, name, None) for name in ("_u_product", "_m_cache")}
    found |= {name: numpy(v) for name, v in of_nadam.items() if v is not None}
    found["iterations"] = np.asarray(optimizer.iterations)
    found["scale"] = np.asarray(tf.convert_to_tensor(optimizer.loss_scale))
    if optimizer.dynamic:
        found["count"] = numpy(optimizer.dynamic_counter)
    return found


def assert_equal(one, other):
    assert one.keys() == other.keys()
    wrong = [k for k in one if not np.array_equal(one[k], other[k], equal_nan=True)]
    assert not wrong, f"not restored: {wrong}"


def assert_same_weights(one, other):
    assert_equal(*(dict(enumerate(owner.get_weights())) for owner in (one, other)))
