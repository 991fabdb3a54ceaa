"""The graph rewrite to float16, and the loss scaling of optimizers of TensorFlow 1."""

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
    """Return whether the rewrite is on, as both TensorFlow's option and its flag say."""
    options = tf.config.optimizer.get_experimental_options()
    state = tf.__internal__.train.is_mixed_precision_graph_rewrite_enabled()
    assert bool(options.get("auto_mixed_precision")) == state
    return state


@pytest.fixture(autouse=True)
def off():
    """Check that the rewrite is off before each test, and switch it off after the test."""
    assert not is_on()
    yield
    if is_on():
        disable()
    policies.set_global_policy(None)


class TestEnable:
    """Tests of `enable_mixed_precision_graph_rewrite`."""

    def test_wraps_optimizers_of_keras(self, family):
        inner = FAMILIES[family].SGD(0.1)
        optimizer = enable(inner, 128)
        assert isinstance(optimizer, tf_lso.LossScaleOptimizer)
        assert optimizer.inner_optimizer is inner
        assert float(optimizer.loss_scale()) == 128.0
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

    def test_is_on_while_fit_runs(self):
        optimizer = enable(keras.optimizers.SGD(0.05), loss_scale=128.0)
        states = []
        callback = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: states.append(is_on())
        )
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
        model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0, callbacks=[callback])
        assert states == [True]
        assert np.asarray(optimizer.iterations) == 1

    @pytest.mark.parametrize(
        "optimizer",
        [
            None,
            keras.optimizers.SGD,
            tf_lso.LossScaleOptimizer(keras.optimizers.SGD()),
            WRAPPER(V1.GradientDescentOptimizer(0.1), 8),
        ],
    )
    def test_refuses_other_optimizers(self, optimizer):
        with pytest.raises(ValueError, match="'opt' must"):
            enable(optimizer)
        assert not is_on()

    @pytest.mark.parametrize(
        "optimizer_class", [keras.optimizers.SGD, V1.GradientDescentOptimizer]
    )
    @pytest.mark.parametrize("loss_scale", [None, 0.5])
    def test_refuses_other_loss_scales(self, optimizer_class, loss_scale):
        with pytest.raises(ValueError, match=r"loss_scale|loss scale"):
            enable(optimizer_class(0.1), loss_scale)
        assert not is_on()

    def test_is_refused_under_a_mixed_policy(self):
        policies.set_global_policy("mixed_float16")
        with pytest.raises(ValueError, match="mixed_float16"):
            enable(keras.optimizers.SGD())
        assert not is_on()

    @pytest.mark.parametrize("name", ["mixed_float16", "mixed_bfloat16"])
    def test_a_mixed_policy_is_refused_while_the_rewrite_is_on(self, name):
        enable(keras.optimizers.SGD())
        with pytest.raises(ValueError, match=f"{name}.*graph rewrite"):
            policies.set_policy(name)
        policies.set_policy("float16")


class TestMixedPrecisionLossScaleOptimizer:
    """Tests of the wrapper for optimizers of TensorFlow 1.

    `tests/golden/test_graph_rewrite.py` compares its steps and its refusals.
    """

    def test_variables_returns_the_variables_of_the_loss_scale(self):
        optimizer = WRAPPER(V1.GradientDescentOptimizer(0.1), "dynamic")
        names = [v.name for v in optimizer.variables()]
        assert names == ["current_loss_scale:0", "good_steps:0"]

    def test_a_nan_on_one_replica_skips_the_step_on_all(self, mirrored2):
        with mirrored2.scope():
            scale = tf_lso.DynamicLossScale(4, 2)
            optimizer = WRAPPER(V1.GradientDescentOptimizer(0.1), scale)
            x = tf.Variable(1.0)

        @tf.function
        def step(gradient):
            apply = lambda g: optimizer.apply_gradients([(g, x)])  # noqa: E731
            mirrored2.run(apply, args=(gradient,))

        step(per_replica(mirrored2, (1.0, NAN)))
        assert copies(x) == [1.0, 1.0]
        assert float(scale()) == 2.0
        step(per_replica(mirrored2, (1.0, 1.0)))
        np.testing.assert_allclose(copies(x), 0.8)  # the sum of two replicas
