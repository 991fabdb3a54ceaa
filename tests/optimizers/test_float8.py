"""Keras 3's float8 layers.

Such a layer has variables for its own scales. Their "gradients" are their next values, which
must be neither unscaled nor summed over replicas.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import STYLES, bare_step, copies, needs_keras3, per_replica
from tests.generation import limit

pytestmark = needs_keras3
needs_float8 = limit("this Keras has no float8 policies", "3.0")

_INPUTS = np.random.RandomState(0).normal(size=(8, 16)).astype("float32")


def _train(step, strategy, inf_at=None, scale=8):
    """Take four steps. In the step `inf_at`, the second replica has the loss inf.

    Return {name of a variable: its values on all replicas}, and the optimizer, which is not
    wrapped if `scale` is None.
    """
    keras.utils.set_random_seed(1)
    with strategy.scope():
        dense = keras.layers.Dense(16, dtype="float8_from_float32", name="dense")
        model = keras.Sequential([keras.Input((16,)), dense])
        optimizer = keras.optimizers.SGD(0.01)
        if scale:
            optimizer = tf_lso.LossScaleOptimizer(optimizer, initial_scale=scale)

    @tf.function
    def run(factor):
        def replica_step():
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            x = tf.constant(_INPUTS)[replica * 4 : replica * 4 + 4]
            factor_of_replica = tf.where(replica == 1, factor, 1.0)
            step(
                optimizer,
                lambda: (
                    factor_of_replica
                    * tf.reduce_mean(tf.square(model(x, training=True)))
                    + 0.0 * model.layers[0].bias.value[0]
                ),
                model.trainable_variables,
            )

        strategy.run(replica_step)

    for i in range(4):
        run(tf.constant(np.inf if i == inf_at else 1.0))
    return {v.name: copies(v) for v in model.trainable_variables}, optimizer


@needs_float8
@pytest.mark.parametrize("style", STYLES)
def test_the_variables_are_those_of_the_bare_optimizer(style, mirrored2):
    expected, _ = _train(bare_step, mirrored2, scale=None)
    actual, _ = _train(STYLES[style], mirrored2)
    for name, values in expected.items():
        # The layer records the gradients of the scaled loss in these variables.
        factor = 8.0 if name.startswith("outputs_grad") else 1.0
        for value, expected_value in zip(actual[name], values):
            if name in ("kernel", "bias"):
                np.testing.assert_allclose(value, expected_value, rtol=1e-4, atol=1e-7)
            elif name != "outputs_grad_scale":
                np.testing.assert_allclose(value, expected_value * factor, rtol=1e-5)


@needs_float8
@pytest.mark.parametrize("style", STYLES)
def test_a_step_that_overflows_on_one_replica_is_skipped_on_all(style, mirrored2):
    variables, optimizer = _train(STYLES[style], mirrored2, inf_at=3)
    assert float(optimizer.loss_scale) == 4.0
    for name, values in variables.items():
        assert np.isfinite(values).all(), name


def test_a_next_value_that_is_nan_on_one_replica_skips_the_step(mirrored2):
    """Such values are not summed, so the check must read those of all replicas."""
    with mirrored2.scope():
        amax, x = keras.Variable(1.0, name="amax"), keras.Variable(1.0, name="x")
        amax.overwrite_with_gradient = True
        optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.5))
        optimizer.build([amax, x])

    @tf.function
    def step(next_values):
        optimizer.apply([next_values, tf.constant(1.0)], [amax, x])

    mirrored2.run(step, args=(per_replica(mirrored2, (1.0, np.nan)),))
    assert copies(x) == [1.0, 1.0]
    assert copies(amax) == [1.0, 1.0]
    assert optimizer.last_overflow == [("amax", "nan")]
