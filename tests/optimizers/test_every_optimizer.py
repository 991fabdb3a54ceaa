"""Every optimizer that this TensorFlow has trains wrapped as it does bare.

The classes are those that each Keras lists, so a new one is tested from its first day.
The scale is a power of two, so that scaling and unscaling change no number.
"""

import inspect

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    FAMILIES,
    KERASES,
    bare_step,
    copies,
    legacy_step,
    needs_keras3,
)
from tests.generation import HAS_KERAS3
from tf_lso.frameworks import optimizer_table as table

STEPS = 3
INPUTS = np.random.RandomState(0).randn(STEPS * 8, 5).astype("float32")
TARGETS = np.sin(INPUTS[:, :2])


def _listed(family):
    """The names of the optimizer classes that can be made with a learning rate alone."""
    module = FAMILIES[family]
    base, wrapper = module.Optimizer, KERASES[family].mixed_precision
    for name, cls in sorted(vars(module).items()):
        if not inspect.isclass(cls) or not issubclass(cls, base) or cls is base:
            continue
        parameters = list(inspect.signature(cls).parameters.values())
        needed = [p.name for p in parameters if p.default is p.empty]
        if not set(needed) - {"kwargs"} and cls is not wrapper.LossScaleOptimizer:
            yield name


EVERY = [(family, name) for family in FAMILIES for name in _listed(family)]


def _model(family, built):
    keras = KERASES[family]
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(2, activation="tanh")])
    if built:
        model.build((None, 5))
    return model


def _optimizer(family, name, wrapped):
    optimizer = getattr(FAMILIES[family], name)(learning_rate=0.125)
    if wrapped:
        optimizer = tf_lso.LossScaleOptimizer(optimizer, initial_scale=8.0)
    return optimizer


def _fit(model, optimizer):
    # XLA takes longer. Keras 2 builds outside of functions, so it needs none here.
    in_function = HAS_KERAS3 and isinstance(model, KERASES["keras3"].Model)
    model.compile(optimizer, "mse", jit_compile=False, run_eagerly=not in_function)
    model.fit(INPUTS, TARGETS, batch_size=8, shuffle=False, verbose=0)


def _step(model, optimizer, x, y):
    take = legacy_step if hasattr(optimizer, "loss_scale") else bare_step
    model(x)  # builds it
    loss = lambda: tf.reduce_mean((model(x) - y) ** 2)  # noqa: E731
    take(optimizer, loss, model.trainable_variables)


def _loop(model, optimizer, step=_step):
    for x, y in zip(np.split(INPUTS, STEPS), np.split(TARGETS, STEPS)):
        step(model, optimizer, tf.constant(x), tf.constant(y))


@pytest.mark.parametrize("train", [_loop, pytest.param(_fit, marks=pytest.mark.slow)])
@pytest.mark.parametrize("family, name", EVERY)
def test_trains_as_bare(family, name, train):
    trained = []
    for wrapped in (False, True):
        model = _model(family, built=False)
        train(model, _optimizer(family, name, wrapped))
        trained.append(model.get_weights())
    before = _model(family, built=True).get_weights()
    assert any((b != a).any() for b, a in zip(before, trained[0]))
    for bare, wrapped in zip(*trained, strict=True):
        np.testing.assert_array_equal(wrapped, bare)


@needs_keras3
@pytest.mark.parametrize(
    "name", [n for f, n in EVERY if f == "keras3" and n not in table.OPTIMIZERS]
)
def test_trains_as_bare_on_two_replicas(name, mirrored2):
    """Those that no table of tf_lso knows."""
    trained = []
    for wrapped in (False, True):
        with mirrored2.scope():
            model = _model("keras3", built=True)
            optimizer = _optimizer("keras3", name, wrapped)
            optimizer.build(model.trainable_variables)
        _loop(model, optimizer, lambda *args: mirrored2.run(_step, args))
        trained.append([copies(v) for v in model.trainable_variables])
    for bare, wrapped in zip(*trained):
        np.testing.assert_array_equal(wrapped, bare)
