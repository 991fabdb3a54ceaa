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


def test_the_rewrite_is_refused_under_a_mixed_policy():
    policies.set_global_policy("mixed_float16")
    try:
        with pytest.raises(ValueError, match="mixed_float16"):
            enable(keras.optimizers.SGD())
    finally:
        policies.set_global_policy(None)
    assert not is_on()


def test_a_policy_that_is_not_mixed_may_be_set_while_the_rewrite_is_on(caplog):
    filters = [*tf.get_logger().filters]
    try:
        enable(keras.optimizers.SGD())
        policies.set_global_policy("float64")
        assert policies.global_policy().name == "float64"
    finally:
        policies.set_global_policy(None)
        experimental.disable_mixed_precision_graph_rewrite()
    # TensorFlow's own function warns about TensorFlow's own loss scale.
    assert "FixedLossScale" not in caplog.text
    assert tf.get_logger().filters == filters


def test_variables_returns_the_variables_of_both(tmp_path):
    inner = V1.MomentumOptimizer(0.1, 0.9)
    optimizer, x = WRAPPER(inner, "dynamic"), tf.Variable(1.0, name="x")
    assert optimizer.get_name() == "Momentum"
    of_tensorflow = tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer
    assert isinstance(optimizer, of_tensorflow)
    optimizer.apply_gradients([(tf.constant(1.0), x)])
    names = [v.name for v in optimizer.variables()]
    assert names == ["x/Momentum:0", "current_loss_scale:0", "good_steps:0"]
    path = tf.train.Checkpoint(o=optimizer).save(str(tmp_path / "c"))
    saved = {name.split("/.ATT")[0] for name, _ in tf.train.list_variables(path)}
    assert {"o/loss_scale/current_loss_scale", "o/loss_scale/good_steps"} <= saved


def test_a_users_own_scale_decides_which_steps_are_applied():
    class Own(tf_lso.LossScale):
        def __call__(self):
            return tf.constant(2.0)

        def update(self, grads):
            return tf.no_op(), grads[0] < 3.0

        def get_config(self):
            return {}

    optimizer, x = WRAPPER(V1.GradientDescentOptimizer(1.0), Own()), tf.Variable(0.0)
    for gradient in (2.0, 4.0):
        optimizer.apply_gradients([(tf.constant(gradient), x)])
    assert float(x) == -2.0


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
