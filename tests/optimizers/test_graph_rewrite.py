"""The graph rewrite to float16, and loss scaling for optimizers of tf.compat.v1."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, copies, keras, per_replica
from tf_lso import policies
from tf_lso.train import experimental

NAN = float("nan")
V1 = tf.compat.v1.train
WRAPPER = tf_lso.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer
enable = experimental.enable_mixed_precision_graph_rewrite
disable = experimental.disable_mixed_precision_graph_rewrite


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
        disable()
    policies.set_global_policy(None)


class TestEnable:
    @pytest.mark.parametrize(
        ("loss_scale", "value"),
        [("dynamic", 2.0**15), (128, 128.0), (tf_lso.FixedLossScale(8), 8.0)],
    )
    def test_wraps_optimizers_of_keras(self, family, loss_scale, value):
        inner = FAMILIES[family].SGD(0.1)
        optimizer = enable(inner, loss_scale)
        assert isinstance(optimizer, tf_lso.LossScaleOptimizer)
        assert optimizer.inner_optimizer is inner
        assert float(optimizer.loss_scale()) == value
        assert is_on()

    def test_wraps_optimizers_of_tensorflow_1(self):
        inner = V1.GradientDescentOptimizer(0.5)
        v1 = tf_lso.compat.v1.train.experimental
        optimizer = v1.enable_mixed_precision_graph_rewrite(inner)
        wrapper = tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer
        assert isinstance(optimizer, wrapper)
        x = tf.Variable(1.0)
        optimizer.minimize(lambda: x**2, var_list=[x])
        assert float(x) == 0.0
        assert is_on()

    def test_says_so(self, caplog):
        caplog.set_level("INFO", logger="tensorflow")
        enable(keras.optimizers.SGD())
        assert "graph rewrite is on" in caplog.text
        assert "FixedLossScale" not in caplog.text

    def test_rewrites_what_fit_compiles(self):
        """The option that the rewrite goes by is in force while `fit` runs."""
        optimizer, seen = enable(keras.optimizers.SGD(0.05), loss_scale=128.0), []
        look = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: seen.append(is_on())
        )
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
        model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0, callbacks=[look])
        assert seen == [True]
        assert np.asarray(optimizer.iterations) == 1

    @pytest.mark.parametrize(
        "optimizer",
        [
            *(None, "sgd", 3, keras.optimizers.SGD),
            tf_lso.LossScaleOptimizer(keras.optimizers.SGD()),
            WRAPPER(V1.GradientDescentOptimizer(0.1), 8),
        ],
    )
    def test_refuses_other_optimizers(self, optimizer):
        with pytest.raises(ValueError, match="'opt' must"):
            enable(optimizer)
        assert not is_on()

    @pytest.mark.parametrize(
        "make", [keras.optimizers.SGD, V1.GradientDescentOptimizer]
    )
    @pytest.mark.parametrize("loss_scale", [None, "bogus", 0.5, [8]])
    def test_refuses_other_loss_scales(self, make, loss_scale):
        with pytest.raises(ValueError, match=r"loss_scale|loss scale"):
            enable(make(0.1), loss_scale)
        assert not is_on()

    def test_is_refused_under_a_mixed_policy_and_the_reverse(self):
        policies.set_global_policy("mixed_float16")
        with pytest.raises(ValueError, match="mixed_float16"):
            enable(keras.optimizers.SGD())
        assert not is_on()
        policies.set_global_policy(None)
        enable(keras.optimizers.SGD())
        with pytest.raises(ValueError, match="graph rewrite"):
            policies.set_policy("mixed_float16")
        policies.set_policy("float64")


def wrap(loss_scale):
    return WRAPPER(V1.GradientDescentOptimizer(0.1), loss_scale)


class TestTheOptimizerOfTensorFlow1:
    """Its steps, and what it refuses, are compared in tests/golden/test_sections.py."""

    def test_hands_out_the_loss_scales_variables(self):
        names = [v.name for v in wrap("dynamic").variables()]
        assert names == ["current_loss_scale:0", "good_steps:0"]

    def test_skips_on_all_replicas(self, mirrored2):
        with mirrored2.scope():
            scale = tf_lso.DynamicLossScale(4, 2)
            optimizer, x = wrap(scale), tf.Variable(1.0)

        @tf.function
        def step(gradient):
            apply = lambda g: optimizer.apply_gradients([(g, x)])  # noqa: E731
            mirrored2.run(apply, args=(gradient,))

        step(per_replica(mirrored2, (1.0, NAN)))
        assert copies(x) == [1.0, 1.0]
        assert float(scale()) == 2.0
        step(per_replica(mirrored2, (1.0, 1.0)))
        np.testing.assert_allclose(copies(x), 0.8)  # the sum of two replicas
