"""Keras 3's float8 layers, whose scales get their next values as gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import STYLES, bare_step, copies
from tests.generation import limit

pytestmark = limit("this Keras has no float8 policies", "3.0")

_INPUTS = np.random.RandomState(0).normal(size=(8, 16)).astype("float32")


def _trained(step, strategy=None, inf_at=None, scale=8):
    """The variables after some steps: name -> list of each replica's value."""
    keras.utils.set_random_seed(1)
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        dense = keras.layers.Dense(16, dtype="float8_from_float32", name="dense")
        model = keras.Sequential([keras.Input((16,)), dense])
        optimizer = keras.optimizers.SGD(0.01)
        if scale:
            optimizer = tf_lso.LossScaleOptimizer(optimizer, initial_scale=scale)

    @tf.function
    def run(factor):
        def replica_step():
            number = tf.distribute.get_replica_context().replica_id_in_sync_group
            x = tf.constant(_INPUTS)[number * 4 : number * 4 + 4]
            factors = tf.where(number == 1, factor, 1.0)
            step(
                optimizer,
                lambda: (
                    factors * tf.reduce_mean(tf.square(model(x, training=True)))
                    + 0.0 * model.layers[0].bias.value[0]
                ),
                model.trainable_variables,
            )

        strategy.run(replica_step)

    for i in range(4):
        run(tf.constant(np.inf if i == inf_at else 1.0))
    return {v.name: copies(v) for v in model.trainable_variables}, optimizer


def _same(got, expected, scale=1.0):
    for name, values in expected.items():
        # The layer sees the gradients of the scaled loss.
        factor = scale if name.startswith("outputs_grad") else 1.0
        for one, other in zip(got[name], values):
            if name in ("kernel", "bias"):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7)
            elif factor == 1.0 or name != "outputs_grad_scale":
                np.testing.assert_allclose(one, other * factor, rtol=1e-5)


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_next_values_arrive_as_they_are(replicas, mirrored2):
    """As with the bare optimizer: neither summed, nor unscaled."""
    strategy = mirrored2 if replicas == 2 else None
    bare, _ = _trained(bare_step, strategy, scale=None)
    for step in STYLES.values():
        ours, _ = _trained(step, strategy)
        _same(ours, bare, scale=8.0)
    if replicas == 1:
        unscaled, _ = _trained(bare_step)
        _same(unscaled, bare)


@pytest.mark.parametrize("style", STYLES)
def test_a_step_that_overflows_on_one_replica_is_skipped_on_all(style, mirrored2):
    three, optimizer = _trained(STYLES[style], mirrored2, inf_at=3)
    assert float(optimizer.loss_scale) == 4.0
    for name, values in three.items():
        assert np.isfinite(values).all(), name
