"""The calls that programs of TensorFlow 2.0-2.3 make of FixedLossScale and DynamicLossScale.

`tests/golden/test_loss_scales.py` compares the results of these calls with recorded results of
each TensorFlow version.
"""

import copy
import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import CURRENT, FAMILIES, STYLES, per_replica, takes_optimizers
from tf_lso.keras.mixed_precision import experimental

NAN = float("nan")


def test_a_fixed_scale_has_its_value_in_several_graphs():
    scale = tf_lso.FixedLossScale(8.0)
    assert float(scale()) == 8.0
    for _ in range(2):
        assert float(tf.function(lambda: scale())()) == 8.0
    assert scale.named_variables() == []
    assert float(tf_lso.FixedLossScale.of(0.25)()) == 0.25


def test_the_variables_of_a_users_scale_are_sorted_by_their_names():
    class Own(tf_lso.FixedLossScale):
        def __init__(self, loss_scale_value):
            super().__init__(loss_scale_value)
            for name in "bca":
                self._add_weight(name, 0.0)

    assert [name for name, _ in Own(8.0).named_variables()] == ["a", "b", "c"]


def test_classes_that_tensorflow_deprecated_do_not_warn(caplog):
    inner = FAMILIES[CURRENT].SGD(0.1)
    experimental.LossScaleOptimizer(inner, tf_lso.DynamicLossScale(8.0))
    tf_lso.FixedLossScale(8.0)
    assert not caplog.records


class TestDynamicLossScale:
    def test_made_outside_the_scope_updates_once_for_all_replicas(self, mirrored2):
        scale = tf_lso.DynamicLossScale(8.0, 100)
        update = tf.function(lambda gradient: tf.identity(scale.update([gradient])[1]))
        for _ in range(3):
            mirrored2.run(update, args=(per_replica(mirrored2, (1.0, 2.0)),))
        assert int(scale._num_good_steps) == 3
        mirrored2.run(update, args=(per_replica(mirrored2, (NAN, 2.0)),))
        assert float(scale()) == 4.0

    @pytest.mark.parametrize("replicas", [1, 2])
    def test_update_sums_rows_with_equal_indices(self, replicas, mirrored2):
        scale, rows = tf_lso.DynamicLossScale(8.0), tf.constant([[3e38], [3e38]])
        slices = tf.IndexedSlices(rows, tf.constant([1, 1]))
        run = mirrored2.run if replicas == 2 else lambda function: function()
        run(lambda: scale.update([slices]))
        assert float(scale()) == 4.0

    def test_stays_near_the_largest_float32_without_a_warning(self, recwarn):
        scale = tf_lso.DynamicLossScale(2.0**127, increment_period=1)
        scale.update([tf.constant(1.0)])
        assert float(scale()) == 2.0**127
        assert not recwarn.list

    @pytest.mark.parametrize("limit", [0.5, 64.0])
    def test_a_limit_itself_may_be_assigned(self, limit):
        scale = tf_lso.DynamicLossScale(2, min_loss_scale=0.5, max_loss_scale=64)
        scale.assign(limit)
        assert float(scale()) == limit

    def test_config_has_the_limits_but_no_state(self):
        scale = tf_lso.DynamicLossScale(2, min_loss_scale=0.5, max_loss_scale=64)
        config = scale.get_config()
        assert (config["min_loss_scale"], config["max_loss_scale"]) == (0.5, 64.0)
        copied = tf_lso.DynamicLossScale.from_config(config)
        assert (copied.min_loss_scale, copied.max_loss_scale) == (0.5, 64.0)
        assert tf_lso.DynamicLossScale().max_loss_scale is None
        read = tf.function(lambda: scale())
        assert float(read()) == 2.0
        scale.update([tf.constant(NAN)])
        assert float(read()) == 1.0
        assert scale.get_config() == config

    def test_repr_in_a_graph_shows_no_state(self):
        scale = tf_lso.DynamicLossScale(8.0)
        with tf.Graph().as_default():
            assert "current_loss_scale" not in repr(scale)

    def test_a_deep_copy_has_the_state_and_changes_alone(self):
        scale = tf_lso.DynamicLossScale(8.0, 10)
        scale.update([tf.constant(NAN)])
        scale.update([tf.constant(1.0)])
        copied = copy.deepcopy(scale)
        assert (float(copied()), int(copied._num_good_steps)) == (4.0, 1)
        copied.update([tf.constant(NAN)])
        assert (float(scale()), float(copied())) == (4.0, 2.0)


def test_a_loss_scale_has_the_attributes_of_a_scalar_tensor():
    scale = tf_lso.DynamicLossScale(8.0)
    assert (scale.dtype, scale.shape, scale.numpy()) == (tf.float32, (), 8.0)


@pytest.mark.parametrize("traced", [False, True])
def test_a_loss_scale_is_compared_by_its_value_with_numbers_and_tensors(traced):
    scale = tf_lso.DynamicLossScale(8.0)

    def compared(tensor):
        return [
            scale == 8,
            scale != 8,
            scale == tensor,
            scale != tensor,
            tensor != scale,
            scale == tf.constant(8),
        ]

    results = (tf.function(compared) if traced else compared)(tf.constant(4.0))
    expected = [True, False, False, True, True, True]
    assert [bool(result) for result in results] == expected
    other = tf_lso.DynamicLossScale(8.0)
    assert scale != other and scale == scale and scale != "dynamic"
    assert len({scale, other, scale}) == 2


def test_a_loss_scale_has_arithmetic_only_with_tensors():
    scale = tf_lso.DynamicLossScale(8.0)
    two = tf.constant(2.0)
    results = [two * scale, scale * two, two / scale, scale / two, scale - two]
    assert [float(result) for result in results] == [16.0, 16.0, 0.25, 4.0, 6.0]
    assert (float(scale), f"{scale:g}", f"{scale}") == (8.0, "8", str(scale))
    assert float(tf_lso.FixedLossScale(2.0**100)) == 2.0**100
    assert np.asarray(scale).dtype == np.float32
    with pytest.raises(TypeError, match="unsupported operand"):
        scale * 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_loss_scale_takes_the_dtype_of_the_tensor_that_it_multiplies(dtype):
    product = tf.constant(2.0, dtype) * tf_lso.DynamicLossScale(8.0)
    assert (product.dtype, float(product)) == (dtype, 16.0)


def test_a_saver_of_tensorflow_1_reads_checkpoints_of_the_real_classes(tmp_path):
    """These checkpoints have two variables. A Saver with a third variable would fail."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.Variable(4.0, name="current_loss_scale")
        tf.Variable(2, name="good_steps", dtype=tf.int64)
        session.run(tf.compat.v1.global_variables_initializer())
        path = tf.compat.v1.train.Saver().save(session, str(tmp_path / "old"))

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        scale = tf_lso.DynamicLossScale(8.0, increment_period=3)
        tf.compat.v1.train.Saver().restore(session, path)
        session.run(scale.update([tf.constant([NAN])])[0])
        assert session.run(scale()) == 2.0


# What the `__call__` of a user's own loss scale may return.
VALUES = {
    "tensor of eager code": tf.constant(8.0),
    "variable": tf.Variable(8.0, trainable=False),
    "NumPy number": np.float64(8.0),
    "Python number": 8,
}


@pytest.mark.parametrize("mode", ["eager", "xla"])
@pytest.mark.parametrize("family, style", [(CURRENT, "keras3"), ("legacy", "legacy")])
@pytest.mark.parametrize("value", VALUES)
def test_a_users_own_scale_may_return_what_converts_to_a_tensor(
    value, family, style, mode
):
    class Own(tf_lso.LossScale):
        def __call__(self):
            return VALUES[value]

        def update(self, grads):
            return None, tf.reduce_all(tf.math.is_finite(grads[0]))

        def get_config(self):
            return {}

    inner, x = FAMILIES[family].SGD(0.5), tf.Variable(1.0)
    optimizer = experimental.LossScaleOptimizer(inner, Own())
    assert optimizer.dynamic_counter is None
    optimizer.build([x])

    def step(factor):
        STYLES[style](optimizer, lambda: factor * x, [x])

    if mode == "xla":
        step = tf.function(step, jit_compile=True)
    for factor in (1.0, NAN, 1.0):
        step(tf.constant(factor))
    assert float(x) == 0.0
    assert int(optimizer.skipped_steps) == 1
    scale = optimizer.loss_scale
    assert (float(scale), scale.numpy(), float(scale * x)) == (8.0, 8.0, 0.0)


# --- A step calls a user's `update` wherever it comes from.


class Mixin:
    def update(self, grads):
        return None, tf.reduce_all(grads[0] < 100.0)


def by_a_mixin():
    return type("Mine", (Mixin, tf_lso.DynamicLossScale), {})(8.0)


def on_the_object():
    scale = tf_lso.DynamicLossScale(8.0)
    scale.update = functools.partial(Mixin.update, scale)
    return scale


def on_the_class_later():
    cls = type("Mine", (tf_lso.DynamicLossScale,), {})
    scale = cls(8.0)
    cls.update = Mixin.update
    return scale


@pytest.mark.parametrize("mode", ["eager", "function"])
@pytest.mark.parametrize("make", [by_a_mixin, on_the_object, on_the_class_later])
def test_a_users_update_is_called_wherever_it_comes_from(make, mode):
    scale, x = make(), tf.Variable(1.0)
    optimizer = experimental.LossScaleOptimizer(FAMILIES[CURRENT].SGD(0.5), scale)
    optimizer.build([x])

    def step(gradient):
        optimizer.apply_gradients([(gradient, x)])

    step = tf.function(step) if mode == "function" else step
    step(tf.constant(1.0))
    step(tf.constant(200.0))  # finite, but the user's update skips it
    assert float(x) == 0.5
    assert int(optimizer.skipped_steps) == 1
    assert float(scale) == 8.0  # the user's update does not change the scale


class CountingScale(tf_lso.FixedLossScale):
    """A user's fixed scale with a variable of its own."""

    def __init__(self, loss_scale_value):
        super().__init__(loss_scale_value)
        self.updates = self._add_weight("updates", 0, tf.int64)

    def update(self, grads):
        self.updates.assign_add(1)
        return super().update(grads)


@takes_optimizers
def test_the_variables_of_a_users_fixed_scale_are_in_checkpoints(family, tmp_path):
    def make():
        inner = FAMILIES[family].SGD(0.5)
        return experimental.LossScaleOptimizer(inner, CountingScale(8.0))

    optimizer, restored, x = make(), make(), tf.Variable(1.0, name="x")
    for one, steps in ((optimizer, 3), (restored, 1)):
        for _ in range(steps):
            one.apply_gradients([(tf.constant(1.0), x)])
    path = tf.train.Checkpoint(optimizer=optimizer).save(str(tmp_path / "c"))
    tf.train.Checkpoint(optimizer=restored).restore(path)
    assert int(restored.loss_scale.updates) == 3
