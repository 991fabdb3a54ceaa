"""Refusals of the graph rewrite to float16, and loss scaling of TensorFlow 1's optimizers.

`tests/golden/test_graph_rewrite.py` compares all other calls, and steps.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import copies, keras, per_replica
from tf_lso import policies
from tf_lso.train import experimental

V1 = tf.compat.v1.train
WRAPPER = tf_lso.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer
enable = experimental.enable_mixed_precision_graph_rewrite
is_on = tf.__internal__.train.is_mixed_precision_graph_rewrite_enabled


@pytest.mark.parametrize(
    "optimizer",
    [
        None,
        keras.optimizers.SGD,
        tf_lso.LossScaleOptimizer(keras.optimizers.SGD()),
        WRAPPER(V1.GradientDescentOptimizer(0.1), 8),
    ],
)
def test_other_optimizers_are_refused(optimizer):
    with pytest.raises(ValueError, match="'opt' must"):
        enable(optimizer)
    assert not is_on()


@pytest.mark.parametrize(
    "optimizer_class", [keras.optimizers.SGD, V1.GradientDescentOptimizer]
)
@pytest.mark.parametrize("loss_scale", [None, 0.5])
def test_other_loss_scales_are_refused(optimizer_class, loss_scale):
    with pytest.raises(ValueError, match=r"loss_scale|loss scale"):
        enable(optimizer_class(0.1), loss_scale)
    assert not is_on()


def test_the_rewrite_is_refused_under_a_mixed_policy():
    policies.set_global_policy("mixed_float16")
    try:
        with pytest.raises(ValueError, match="mixed_float16"):
            enable(keras.optimizers.SGD())
    finally:
        policies.set_global_policy(None)
    assert not is_on()


def test_variables_returns_the_variables_of_the_loss_scale():
    optimizer = WRAPPER(V1.GradientDescentOptimizer(0.1), "dynamic")
    of_tensorflow = tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer
    assert isinstance(optimizer, of_tensorflow)
    names = [v.name for v in optimizer.variables()]
    assert names == ["current_loss_scale:0", "good_steps:0"]


def test_a_nan_on_one_replica_skips_the_step_on_all(mirrored2):
    with mirrored2.scope():
        scale = tf_lso.DynamicLossScale(4, 2)
        optimizer = WRAPPER(V1.GradientDescentOptimizer(0.1), scale)
        x = tf.Variable(1.0)

    @tf.function
    def step(gradient):
        apply = lambda g: optimizer.apply_gradients([(g, x)])  # noqa: E731
        mirrored2.run(apply, args=(gradient,))

    step(per_replica(mirrored2, (1.0, float("nan"))))
    assert copies(x) == [1.0, 1.0]
    assert float(scale()) == 2.0
    step(per_replica(mirrored2, (1.0, 1.0)))
    np.testing.assert_allclose(copies(x), 0.8)  # the sum of two replicas
