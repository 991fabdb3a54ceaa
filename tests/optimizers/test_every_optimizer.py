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


def _trained(family, name, wrapped, strategy):
    """Return the weights of a model on all replicas, before and after the training."""
    keras = KERASES[family]
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(2, activation="tanh")])
        model.build((None, 5))
        optimizer = getattr(FAMILIES[family], name)(learning_rate=0.125)
        if wrapped:
            optimizer = tf_lso.LossScaleOptimizer(optimizer, initial_scale=8.0)
        if strategy.num_replicas_in_sync > 1:
            optimizer.build(model.trainable_variables)

    def step(x, y):
        def loss():
            return tf.reduce_mean((model(x) - y) ** 2)

        take_step = legacy_step if wrapped else bare_step
        take_step(optimizer, loss, model.trainable_variables)

    before = [copies(v) for v in model.trainable_variables]
    for x, y in zip(np.split(INPUTS, STEPS), np.split(TARGETS, STEPS)):
        strategy.run(step, (tf.constant(x), tf.constant(y)))
    return before, [copies(v) for v in model.trainable_variables]


@pytest.mark.parametrize(
    "family, name, replicas",
    [
        *((family, name, 1) for family, name in EVERY_OPTIMIZER),
        # The contract tests the optimizers in tf_lso's table on replicas.
        *(
            (family, name, 2)
            for family, name in EVERY_OPTIMIZER
            if family == "keras3" and name not in table.OPTIMIZERS
        ),
    ],
)
def test_trains_like_the_bare_optimizer(family, name, replicas, mirrored2):
    strategy = mirrored2 if replicas == 2 else tf.distribute.get_strategy()
    untrained, by_bare = _trained(family, name, False, strategy)
    _, by_wrapped = _trained(family, name, True, strategy)
    assert any((b[0] != a[0]).any() for b, a in zip(untrained, by_bare))
    for expected, actual in zip(by_bare, by_wrapped, strict=True):
        np.testing.assert_array_equal(actual, expected)
