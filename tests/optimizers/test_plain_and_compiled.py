"""One function, traced once, runs both plainly and inside a function that XLA compiles."""

import numpy as np
import pytest
import tensorflow as tf

from tests.families import CURRENT, STYLES, needs_keras3, wrapped
from tests.generation import NO_CHECKPOINT

INF = float("inf")
ORDERS = {
    "plain first": ("plain", "compiled", "plain", "compiled"),
    "compiled first": ("compiled", "plain", "compiled", "plain"),
}


def both_ways(function):
    """Return {"plain": ..., "compiled": ...}: two ways to run one traced function."""
    traced = tf.function(function)

    @tf.function(jit_compile=True)
    def compiled(*args):
        traced(*args)  # TensorFlow 2.12 returns an operation here

    return {"plain": traced, "compiled": compiled}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("style", STYLES)
def test_a_step_that_may_be_skipped(family, style, order):
    optimizer, x = wrapped(family, scale=2.0), tf.Variable([1.0, 2.0], name="x")
    optimizer.build([x])

    def step(factor):
        STYLES[style](optimizer, lambda: tf.reduce_sum(factor * x), [x])

    run = both_ways(step)
    for number, way in enumerate(ORDERS[order], start=1):
        before = x.numpy()
        run[way](
            tf.constant(INF)
        )  # the scale reaches its minimum, and a warning is due
        np.testing.assert_array_equal(x, before)
        assert optimizer.last_overflow == [("x", "inf")]
        run[way](tf.constant(1.0))
        assert (x.numpy() < before).all()
        assert int(optimizer.skipped_steps) == number


def test_a_stuck_scale_is_reported_after_a_compiled_step(caplog):
    optimizer, x = wrapped(CURRENT, scale=1.0), tf.Variable(1.0, name="x")
    optimizer.build([x])
    run = both_ways(lambda gradient: optimizer.apply_gradients([(gradient, x)]))
    run["plain"](tf.constant(1.0))
    run["compiled"](tf.constant(INF))
    assert int(optimizer.skipped_steps) == 1
    assert caplog.text.count("scale is at its minimum") == 1
    run["plain"](tf.constant(INF))  # it prints the warning itself
    assert int(optimizer.skipped_steps) == 2
    assert caplog.text.count("scale is at its minimum") == 1


@pytest.mark.parametrize("order", ORDERS)
def test_slices_with_duplicate_rows(family, order):
    optimizer = wrapped(family, "SGD", 0.5, scale=4.0)
    table = tf.Variable(tf.zeros([5, 2]), name="table")
    optimizer.build([table])

    def step(rows, indices):
        slices = tf.IndexedSlices(rows, indices, tf.constant([5, 2]))
        optimizer.apply_gradients([(slices, table)])

    run = both_ways(step)
    indices = tf.constant([1, 4, 1])
    for number, way in enumerate(ORDERS[order], start=1):
        run[way](tf.ones([3, 2]), indices)
        assert table.numpy()[:, 0].tolist() == [0.0, -number, 0.0, 0.0, -number / 2]
        run[way](tf.fill([3, 2], INF), indices)
        assert int(optimizer.skipped_steps) == number


@needs_keras3
@NO_CHECKPOINT
def test_a_step_of_a_saved_model_that_is_compiled_after_loading(tmp_path):
    module = tf.Module()
    module.x = tf.Variable(1.0, name="x")
    module.optimizer = wrapped("keras3", "SGD", 0.5, scale=2.0)
    module.optimizer.build([module.x])

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def step(factor):
        STYLES["legacy"](module.optimizer, lambda: factor * module.x, [module.x])
        return module.x.read_value()

    module.step = step
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    compiled = tf.function(loaded.step, jit_compile=True)
    values = [float(compiled(tf.constant(factor))) for factor in (1.0, INF, INF, 1.0)]
    assert values == [0.5, 0.5, 0.5, 0.0]
