"""A step: what it judges, what it applies, and on which replicas."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests import counting
from tests.families import FAMILIES, copies, per_replica, wrapped
from tf_lso.keras.mixed_precision import experimental

pytestmark = pytest.mark.core

INF = float("inf")


def run(optimizer, between=lambda gradients: gradients):
    """The values of two variables after some steps."""
    x, y = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    optimizer.build([x, y])

    @tf.function
    def step(factor):
        scale = optimizer.loss_scale
        gradients = [tf.stack([factor, 1.0]) * scale, factor * scale]
        gradients = between(optimizer.get_unscaled_gradients(gradients))
        optimizer.apply_gradients(zip(gradients, [x, y]))

    for factor in (1.0, INF, 2.0):
        step(tf.constant(factor))
    return x.numpy().tolist(), y.numpy()


CHANGES = {
    # Clipped, an infinity is 1.
    "clipped": (lambda gs: [tf.clip_by_value(g, -1.0, 1.0) for g in gs], [-0.5, 0.5]),
    "multiplied": (lambda gs: [gs[0], gs[1] * 1.0], [-0.5, 1.0]),
    "copied": (lambda gs: [gs[0], tf.identity(gs[1])], [-0.5, 1.0]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_after_unscaling_is_judged_as_it_is(family, change):
    between, x = CHANGES[change]
    assert run(wrapped(family, "SGD", 0.5), between) == (x, 1.5)


def test_no_gradient_carries_a_mark(family):
    """A mark on a tensor would go along where anything else copies its attributes."""
    optimizer, table = wrapped(family, "SGD", 0.5), tf.Variable(tf.ones([4, 2]))
    optimizer.build([table])
    slices = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 1]), tf.constant([4, 2]))

    @tf.function
    def step():
        gradients = optimizer.get_unscaled_gradients([slices])
        optimizer.apply_gradients(zip(gradients, [table]))
        for operation in tf.compat.v1.get_default_graph().get_operations():
            for tensor in operation.outputs:
                assert not [name for name in vars(tensor) if "tf_lso" in name]

    step.get_concrete_function()


def test_a_loss_scale_that_judges_in_its_own_way_sees_unscaled_gradients(family):
    class Own(tf_lso.DynamicLossScale):
        def update(self, grads):
            seen.extend(grads)
            return super().update(grads)

    seen = []
    optimizer = experimental.LossScaleOptimizer(FAMILIES[family].SGD(0.5), Own(8.0))
    assert run(optimizer) == ([-0.5, 1.0], 1.5)
    assert seen


def test_xla_runs_one_branch(family):
    """XLA turns a `tf.cond` into both, and copies the variables to select from them."""
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


# --- A traced step on one device judges the dividends, and divides in its branches.

STYLE_OF = {"legacy": "get_scaled_loss", "keras3": "scale_loss"}


@pytest.mark.parametrize("jit_compile", [None, True], ids=["function", "xla"])
@pytest.mark.parametrize("style", STYLE_OF)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_quotients_are_judged(family, style, dtype, jit_compile):
    """At a scale below 1 a quotient may be infinite though the dividend is not."""
    inner, x = FAMILIES[family].SGD(1.0), tf.Variable(tf.zeros([3], dtype), name="x")
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=0.5, min_scale=0.125)
    optimizer.build([x])

    @tf.function(jit_compile=jit_compile)
    def step(gradient):
        getattr(optimizer, STYLE_OF[style])(tf.constant(1.0))
        gradients = [gradient]
        if style == "legacy":
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, [x]))

    largest = float(tf.as_dtype(dtype).max)
    step(tf.constant([1.0, 2.0, 0.75 * largest], dtype))
    assert x.numpy().tolist() == [0.0, 0.0, 0.0]
    assert optimizer.last_overflow == [("x", "inf")]
    assert float(optimizer.loss_scale) == 0.25
    step(tf.constant([1.0, 2.0, 4.0], dtype))
    assert x.numpy().tolist() == [-4.0, -8.0, -16.0]


@pytest.mark.parametrize(
    "narrow, jit_compile",
    # XLA may leave out a cast to bfloat16 and back: it allows itself excess precision.
    [("float16", None), ("float16", True), ("bfloat16", None)],
)
def test_a_gradient_that_was_averaged_in_16_bits(family, narrow, jit_compile):
    """The numbers before are finite, and those that were divided are not."""
    optimizer, x = wrapped(family, "SGD", 1.0, scale=4.0), tf.Variable([1.0, 1.0])
    optimizer.build([x])

    @tf.function(jit_compile=jit_compile)
    def step(gradient):
        averaged = tf.cast(gradient, narrow) / tf.constant(2.0, narrow)
        optimizer.apply_gradients([(tf.cast(averaged, tf.float32), x)])

    step(tf.constant([3.4e38, 1.0]))
    assert x.numpy().tolist() == [1.0, 1.0]
    assert float(optimizer.loss_scale) == 2.0


def test_a_gradient_that_was_divided_by_a_tensor_of_its_shape(family):
    optimizer, x = wrapped(family, "SGD", 1.0), tf.Variable([0.0, 0.0])
    optimizer.build([x])

    @tf.function
    def step(divisors):
        optimizer.apply_gradients([(tf.constant([8.0, 8.0]) / divisors, x)])

    step(tf.constant([2.0, 0.0]))
    assert x.numpy().tolist() == [0.0, 0.0]
    step(tf.constant([2.0, 4.0]))
    assert x.numpy().tolist() == [-4.0, -2.0]


# --- Under a strategy.


def step_on_two(strategy, optimizer, variable):
    """A traced step: the gradients of the replicas -> the values there after it."""

    @tf.function
    def step(value):
        gradients = optimizer.get_unscaled_gradients([value * optimizer.loss_scale])
        optimizer.apply_gradients(zip(gradients, [variable]))

    def on_both(values):
        strategy.run(step, args=(per_replica(strategy, values),))
        return copies(variable)

    return on_both


# The gradients of two replicas, the scale, and the sum that is applied.
SUMS = [
    ((1.0, 2.0), 8.0, 3.0),
    # Times the scale, each is finite, but not their sum, which nobody asks for.
    ((4e37, 4e37), 8.0, 8e37),
    ((-4e37, -4e37), 8.0, -8e37),
    ((4e37, -4e37), 8.0, 0.0),
    # Times the scale, the sum is finite, which it is not without.
    ((2e38, 2e38), 0.5, None),
    ((2e38, 1e38), 0.5, 3e38),
    ((2e38, 2e38), 1.0, None),
    ((1.0, float("nan")), 8.0, None),
    ((-INF, 1.0), 8.0, None),
    ((INF, -INF), 8.0, None),
]


def test_sums_are_of_unscaled_gradients(family, mirrored2):
    with mirrored2.scope():
        variable = tf.Variable(0.0)
        optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.5), min_scale=0.25)
    step = step_on_two(mirrored2, optimizer, variable)
    for values, scale, applied in SUMS:
        variable.assign(0.0)
        optimizer.loss_scale_state._current_loss_scale.assign(scale)
        expected = [-0.5 * (applied or 0.0)] * 2
        np.testing.assert_allclose(step(values), expected, 1e-6, err_msg=f"{values}")
        left = scale / 2 if applied is None else scale
        assert float(optimizer.loss_scale) == left, values


@pytest.mark.parametrize(
    "family, name",
    [
        ("legacy", "_transform_unaggregated_gradients"),
        ("legacy", "_aggregate_gradients"),
        ("new", "aggregate_gradients"),
        ("keras3", "aggregate_gradients"),
    ],
)
def test_what_a_user_does_at_the_sum_sees_unscaled_gradients(family, name, mirrored2):
    def clipping(self, grads_and_vars):
        gradients, variables = zip(*grads_and_vars)
        gradients = [tf.clip_by_value(g, -1.0, 1.0) for g in gradients]
        if name != "_transform_unaggregated_gradients":
            context = tf.distribute.get_replica_context()
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        return list(zip(gradients, variables))

    Own = type("Own", (FAMILIES[family].SGD,), {name: clipping})
    with mirrored2.scope():
        variable = tf.Variable(10.0)
        optimizer = tf_lso.LossScaleOptimizer(Own(0.5), initial_scale=8.0)
    assert step_on_two(mirrored2, optimizer, variable)((3.0, 0.5)) == [9.25] * 2


@pytest.mark.parametrize("mode", ["eager", "function", "xla"])
@pytest.mark.parametrize(
    "verdict, family",
    list(zip([True, False, np.False_, 0, 1], itertools.cycle(FAMILIES))),
)
def test_a_loss_scale_of_ones_own_may_answer_in_python(family, mode, verdict):
    class Own(tf_lso.FixedLossScale):
        def update(self, grads):
            return None, verdict

    x, inner = tf.Variable(1.0), FAMILIES[family].SGD(0.5)
    optimizer = experimental.LossScaleOptimizer(inner, Own(8.0))
    optimizer.build([x])

    def step():
        optimizer.apply_gradients([(tf.constant(1.0), x)])

    if mode != "eager":
        step = tf.function(step, jit_compile=mode == "xla")
    step()
    step()
    assert x.numpy() == (0.0 if verdict else 1.0)
    assert int(optimizer.iterations.numpy()) == 2


def test_a_step_on_replicas_reads_no_value_to_find_a_name(mirrored2):
    # TensorFlow reads the value of a mirrored variable where a name is looked for on it.
    # The update of a legacy SGD reads none, so the reads do not grow with the variables.
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
