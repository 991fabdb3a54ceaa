"""A step: which gradients it checks, which it applies, and on which replicas."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests import counting
from tests.families import CURRENT, FAMILIES, copies, per_replica, wrapped
from tf_lso.keras.mixed_precision import experimental

pytestmark = pytest.mark.core

INF = float("inf")


def values_after_three_steps(optimizer, change=lambda gradients: gradients):
    """Return the values of two variables after three steps, the second with infinity.

    `change` is a function that the program calls on the unscaled gradients.
    """
    x, y = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    optimizer.build([x, y])

    @tf.function
    def step(factor):
        scale = optimizer.loss_scale
        gradients = [tf.stack([factor, 1.0]) * scale, factor * scale]
        gradients = change(optimizer.get_unscaled_gradients(gradients))
        optimizer.apply_gradients(zip(gradients, [x, y]))

    for factor in (1.0, INF, 2.0):
        step(tf.constant(factor))
    return x.numpy().tolist(), y.numpy()


def clip_all(gradients):
    return [tf.clip_by_value(gradient, -1.0, 1.0) for gradient in gradients]


def copy_the_second(gradients):
    return [gradients[0], tf.identity(gradients[1])]


@pytest.mark.parametrize(
    ("change", "x"),
    [
        (clip_all, [-0.5, 0.5]),  # clipping makes infinity 1, so no step is skipped
        (copy_the_second, [-0.5, 1.0]),
    ],
)
def test_gradients_changed_after_unscaling_are_checked_as_changed(family, change, x):
    optimizer = wrapped(family, "SGD", 0.5)
    assert values_after_three_steps(optimizer, change) == (x, 1.5)


def test_the_update_of_a_loss_scale_subclass_gets_unscaled_gradients(family):
    seen = []

    class RecordingLossScale(tf_lso.DynamicLossScale):
        def update(self, grads):
            seen.extend(grads)
            return super().update(grads)

    optimizer = experimental.LossScaleOptimizer(
        FAMILIES[family].SGD(0.5), RecordingLossScale(8.0)
    )
    assert values_after_three_steps(optimizer) == ([-0.5, 1.0], 1.5)
    assert seen and all(isinstance(gradient, tf.Tensor) for gradient in seen)


def test_xla_runs_only_one_branch(family):
    """XLA would run both branches of a `tf.cond`, and copy the variables of both."""
    x = tf.Variable([1.0, 2.0])
    optimizer = wrapped(family, "SGD", 0.5)
    optimizer.build([x])

    @tf.function(jit_compile=True)
    def step(factor):
        gradients = optimizer.get_unscaled_gradients([factor * x])
        optimizer.apply_gradients(zip(gradients, [x]))

    for factor in (8.0, INF):
        step(tf.constant(factor))
    np.testing.assert_array_equal(x, [0.5, 1.0])
    compiled = step.experimental_get_compiler_ir(tf.constant(1.0))("optimized_hlo")
    assert " conditional(" in compiled


# --- A traced step on one device checks the quotients, and divides again in its branches.


@pytest.mark.parametrize("method", ["get_scaled_loss", "scale_loss"])
@pytest.mark.parametrize(
    "family, dtype, jit_compile",
    [
        *((family, "float32", None) for family in FAMILIES),
        (CURRENT, "float16", None),
        (CURRENT, "float32", True),
    ],
)
def test_the_check_reads_the_unscaled_gradients(family, method, dtype, jit_compile):
    """With a scale below 1, an unscaled gradient may be infinite although the scaled is not."""
    inner, x = FAMILIES[family].SGD(1.0), tf.Variable(tf.zeros([3], dtype), name="x")
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=0.5, min_scale=0.125)
    optimizer.build([x])

    @tf.function(jit_compile=jit_compile)
    def step(gradient):
        scale_the_loss = getattr(optimizer, method)
        scale_the_loss(tf.constant(1.0))
        gradients = [gradient]
        if method == "get_scaled_loss":
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, [x]))

    largest = float(tf.as_dtype(dtype).max)
    step(tf.constant([1.0, 2.0, 0.75 * largest], dtype))
    assert x.numpy().tolist() == [0.0, 0.0, 0.0]
    assert optimizer.last_overflow == [("x", "inf")]
    assert float(optimizer.loss_scale) == 0.25
    step(tf.constant([1.0, 2.0, 4.0], dtype))
    assert x.numpy().tolist() == [-4.0, -8.0, -16.0]


# The check joins small gradients, and reads each large one by itself.
@pytest.mark.parametrize("size", [2, 5000])
def test_each_gradient_is_checked_after_its_own_division(size):
    inner, x, y = FAMILIES[CURRENT].SGD(1.0), *map(tf.Variable, tf.zeros([2, size]))
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=0.5, min_scale=0.125)
    optimizer.build([x, y])

    @tf.function
    def step(gradients):
        first, second = optimizer.get_unscaled_gradients(gradients)
        copied = first * 1.0  # the step does not divide a copy
        optimizer.apply_gradients([(copied, x), (second, y)])

    # Only one number is large, so that the sum of the numbers is finite.
    first, largest = tf.one_hot(0, size), 2.0**128
    step([0.375 * largest * first, tf.ones(size)])
    assert (float(x[0]), float(y[0])) == (-0.75 * largest, -2.0)
    step([tf.ones(size), 0.75 * largest * first])
    assert (float(x[0]), float(y[0])) == (-0.75 * largest, -2.0)
    assert float(optimizer.loss_scale) == 0.25


@pytest.mark.parametrize(
    "dtype, jit_compile",
    # XLA may remove a cast to bfloat16 and back, so there is no row with XLA and bfloat16.
    [("float16", None), ("float16", True), ("bfloat16", None)],
)
def test_a_gradient_that_became_infinite_by_a_16_bit_division_is_skipped(
    dtype, jit_compile
):
    """The gradient is finite in float32, but infinite after the cast to 16 bits."""
    optimizer, x = wrapped(CURRENT, "SGD", 1.0, scale=4.0), tf.Variable([1.0, 1.0])
    optimizer.build([x])

    @tf.function(jit_compile=jit_compile)
    def step(gradient):
        averaged = tf.cast(gradient, dtype) / tf.constant(2.0, dtype)
        optimizer.apply_gradients([(tf.cast(averaged, tf.float32), x)])

    step(tf.constant([3.4e38, 1.0]))
    assert x.numpy().tolist() == [1.0, 1.0]
    assert float(optimizer.loss_scale) == 2.0


# --- Optimizers and loss scales of users, and reads on replicas.


@pytest.mark.parametrize(
    "family, name",
    [
        ("legacy", "_transform_unaggregated_gradients"),
        ("legacy", "_aggregate_gradients"),
        ("new", "aggregate_gradients"),
        ("keras3", "aggregate_gradients"),
    ],
)
def test_an_overridden_aggregation_gets_unscaled_gradients(family, name, mirrored2):
    def clipping(self, grads_and_vars):
        gradients, variables = zip(*grads_and_vars)
        gradients = [tf.clip_by_value(g, -1.0, 1.0) for g in gradients]
        if name != "_transform_unaggregated_gradients":
            context = tf.distribute.get_replica_context()
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        return list(zip(gradients, variables))

    ClippingSGD = type("ClippingSGD", (FAMILIES[family].SGD,), {name: clipping})
    with mirrored2.scope():
        variable = tf.Variable(10.0)
        optimizer = tf_lso.LossScaleOptimizer(ClippingSGD(0.5), initial_scale=8.0)

    @tf.function
    def step(value):
        gradients = optimizer.get_unscaled_gradients([value * optimizer.loss_scale])
        optimizer.apply_gradients(zip(gradients, [variable]))

    mirrored2.run(step, args=(per_replica(mirrored2, (3.0, 0.5)),))
    # Clipping makes the gradients 1 and 0.5.
    assert copies(variable) == [9.25, 9.25]


def test_an_overridden_aggregation_may_change_the_order_of_the_variables():
    class Reversing(FAMILIES["legacy"].SGD):
        def _aggregate_gradients(self, grads_and_vars):
            return list(grads_and_vars)[::-1]

    optimizer = tf_lso.LossScaleOptimizer(Reversing(1.0))
    x, y = tf.Variable(0.0, name="x"), tf.Variable(0.0, name="y")
    for gradient in (2.0, INF):
        pairs = [(tf.constant(1.0), x), (tf.constant(gradient), y)]
        optimizer.apply_gradients(pairs)
    assert (float(x), float(y)) == (-1.0, -2.0)
    assert optimizer.last_overflow == [("y", "inf")]


@pytest.mark.parametrize("mode", ["eager", "xla"])
@pytest.mark.parametrize(
    "verdict, family",
    [(True, CURRENT), (np.False_, "new"), (0, "legacy")],
)
def test_the_update_of_a_loss_scale_subclass_may_return_a_python_value(
    family, mode, verdict
):
    class OwnLossScale(tf_lso.FixedLossScale):
        def update(self, grads):
            return None, verdict

    x, inner = tf.Variable(1.0), FAMILIES[family].SGD(0.5)
    optimizer = experimental.LossScaleOptimizer(inner, OwnLossScale(8.0))
    optimizer.build([x])

    def step():
        optimizer.apply_gradients([(tf.constant(1.0), x)])

    if mode == "xla":
        step = tf.function(step, jit_compile=True)
    step()
    step()
    assert x.numpy() == (0.0 if verdict else 1.0)
    assert int(optimizer.iterations.numpy()) == 2


def test_a_step_on_replicas_reads_no_variable_to_find_its_attributes(mirrored2):
    # If code looks up an attribute of a mirrored variable, TensorFlow reads the variable. The
    # update of a legacy SGD reads no variable, so the number of reads must not grow with the
    # number of variables.
    def reads(count):
        with mirrored2.scope():
            variables = [tf.Variable([1.0, 2.0]) for _ in range(count)]
            optimizer = wrapped("legacy", "SGD", 0.5)

        def apply():
            gradients = [tf.constant([1.0, 2.0]) for _ in range(count)]
            optimizer.apply_gradients(zip(gradients, variables))

        step = tf.function(lambda: mirrored2.run(apply), autograph=False)
        graph = step.get_concrete_function().graph
        return counting.operations(graph)["ReadVariableOp"]

    assert reads(2) == reads(6) > 0
