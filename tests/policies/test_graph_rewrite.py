"""The graph rewrite to float16, and loss scaling for optimizers of tf.compat.v1.

What each version did with them is recorded: `tests/golden/test_training.py` compares it.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras
from tf_lso import policies
from tf_lso.train import experimental

V1 = tf.compat.v1.train
WRAPPER = tf_lso.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer


def is_on():
    options = tf.config.optimizer.get_experimental_options()
    state = tf.__internal__.train.is_mixed_precision_graph_rewrite_enabled()
    assert bool(options.get("auto_mixed_precision")) == state
    return state


@pytest.fixture(autouse=True)
def off():
    """The rewrite is off before and after."""
    assert not is_on()
    yield
    if is_on():
        experimental.disable_mixed_precision_graph_rewrite()
    policies.set_global_policy(None)


class TestEnable:
    def test_says_so(self, caplog):
        caplog.set_level("INFO", logger="tensorflow")
        experimental.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD())
        assert "graph rewrite is on" in caplog.text
        assert "FixedLossScale" not in caplog.text

    def test_rewrites_what_fit_compiles(self):
        """The option that the rewrite goes by is in force while `fit` runs."""
        optimizer = experimental.enable_mixed_precision_graph_rewrite(
            keras.optimizers.SGD(0.05), loss_scale=128.0
        )
        seen = []
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
        model.fit(
            np.ones((4, 2)),
            np.ones((4, 1)),
            verbose=0,
            callbacks=[
                keras.callbacks.LambdaCallback(
                    on_train_batch_end=lambda batch, logs: seen.append(is_on())
                )
            ],
        )
        assert seen == [True]
        assert np.asarray(optimizer.iterations) == 1

    @pytest.mark.parametrize(
        "optimizer",
        [
            None,
            3,
            keras.optimizers.SGD,
            lambda: WRAPPER(V1.GradientDescentOptimizer(0.1), 8),
        ],
    )
    def test_refuses_other_optimizers(self, optimizer):
        if callable(optimizer) and not isinstance(optimizer, type):
            optimizer = optimizer()
        with pytest.raises(ValueError, match="'opt' must"):
            experimental.enable_mixed_precision_graph_rewrite(optimizer)
        assert not is_on()

    def test_ends_by_disable(self, caplog):
        experimental.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD())
        experimental.disable_mixed_precision_graph_rewrite()
        assert not is_on()
        experimental.disable_mixed_precision_graph_rewrite()
        assert "already disabled" in caplog.text


class TestTheOptimizerOfTensorFlow1:
    def make(self, loss_scale=None):
        loss_scale = loss_scale or tf_lso.DynamicLossScale(4, 2)
        return WRAPPER(V1.GradientDescentOptimizer(0.1), loss_scale)

    def test_hands_out_the_loss_scales_variables(self):
        names = [v.name for v in self.make().variables()]
        assert names == ["current_loss_scale:0", "good_steps:0"]

    def test_skips_on_all_replicas(self, mirrored2):
        with mirrored2.scope():
            scale = tf_lso.DynamicLossScale(4, 2)
            optimizer = self.make(scale)
            x = tf.Variable(1.0)

        @tf.function
        def step(bad):
            def on_replica():
                replica = tf.distribute.get_replica_context().replica_id_in_sync_group
                gradient = tf.where(tf.equal(replica, bad), float("nan"), 1.0)
                optimizer.apply_gradients([(gradient, x)])

            mirrored2.run(on_replica)

        step(1)
        assert [float(v) for v in mirrored2.experimental_local_results(x)] == [1.0, 1.0]
        assert float(scale()) == 2.0
        step(-1)
        np.testing.assert_allclose(x.numpy(), 0.8)  # the sum of two replicas
