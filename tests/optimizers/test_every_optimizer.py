"""Every optimizer of each installed Keras trains with a loss scale as it does without.

The classes are taken from the modules of Keras, so that a new optimizer is tested as soon as
it is installed. The scale is a power of two, so scaling and unscaling round no number.
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
from tf_lso.frameworks import optimizer_table as table

STEPS = 3
INPUTS = np.random.RandomState(0).randn(STEPS * 8, 5).astype("float32")
TARGETS = np.sin(INPUTS[:, :2])


def _optimizer_names(family):
    """Yield the names of the optimizer classes that need no argument."""
    module = FAMILIES[family]
    excluded = (
        module.Optimizer,
        KERASES[family].mixed_precision.LossScaleOptimizer,
    )
    for name, cls in sorted(vars(module).items()):
        if not inspect.isclass(cls) or not issubclass(cls, module.Optimizer):
            continue
        parameters = inspect.signature(cls).parameters.values()
        required = {p.name for p in parameters if p.default is p.empty} - {"kwargs"}
        if cls not in excluded and not required:
            yield name


EVERY_OPTIMIZER = [
    (family, name) for family in FAMILIES for name in _optimizer_names(family)
]


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


def _step(model, optimizer, x, y):
    take_step = legacy_step if hasattr(optimizer, "loss_scale") else bare_step
    model(x)  # builds the model
    loss = lambda: tf.reduce_mean((model(x) - y) ** 2)  # noqa: E731
    take_step(optimizer, loss, model.trainable_variables)


def _train_by_loop(model, optimizer, step=_step):
    for x, y in zip(np.split(INPUTS, STEPS), np.split(TARGETS, STEPS)):
        step(model, optimizer, tf.constant(x), tf.constant(y))


@pytest.mark.parametrize("family, name", EVERY_OPTIMIZER)
def test_trains_like_the_bare_optimizer(family, name):
    trained = []
    for wrapped in (False, True):
        model = _model(family, built=False)
        _train_by_loop(model, _optimizer(family, name, wrapped))
        trained.append(model.get_weights())
    by_bare, by_wrapped = trained
    untrained = _model(family, built=True).get_weights()
    assert any((b != a).any() for b, a in zip(untrained, by_bare))
    for expected, actual in zip(by_bare, by_wrapped, strict=True):
        np.testing.assert_array_equal(actual, expected)


@needs_keras3
@pytest.mark.parametrize(
    "name",
    [
        name
        for family, name in EVERY_OPTIMIZER
        if family == "keras3" and name not in table.OPTIMIZERS
    ],
)
def test_an_optimizer_that_tf_lso_does_not_list_trains_on_two_replicas(name, mirrored2):
    """The contract tests the optimizers in tf_lso's table on replicas."""
    trained = []
    for wrapped in (False, True):
        with mirrored2.scope():
            model = _model("keras3", built=True)
            optimizer = _optimizer("keras3", name, wrapped)
            optimizer.build(model.trainable_variables)
        _train_by_loop(model, optimizer, lambda *args: mirrored2.run(_step, args))
        trained.append([copies(v) for v in model.trainable_variables])
    by_bare, by_wrapped = trained
    for expected, actual in zip(by_bare, by_wrapped, strict=True):
        np.testing.assert_array_equal(actual, expected)
