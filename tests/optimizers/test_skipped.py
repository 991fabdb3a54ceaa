"""What an optimizer reports about the steps that it has skipped, and setting its scale."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tests.families import (
    CHECKPOINTED,
    CURRENT,
    FAMILIES,
    keras,
    legacy_step,
    needs_keras3,
    per_replica,
    wrapped,
)
from tests.processes import run
from tf_lso.keras.mixed_precision import experimental
from tf_lso.scaling import skipped

NAN, INF = float("nan"), float("inf")
MODES = ("eager", "function", "xla")


def in_mode(function, mode):
    """Return a function as it is, as a `tf.function`, or compiled by XLA."""
    if mode == "eager":
        return function
    return tf.function(function, jit_compile=mode == "xla")


def make_step(optimizer, mode):
    """Return a function that takes a step with the gradient [value, 1]."""
    x = tf.Variable([1.0, 2.0], name="x")
    optimizer.build([x])
    step = in_mode(lambda gradient: optimizer.apply_gradients([(gradient, x)]), mode)
    return lambda value: step(tf.constant([value, 1.0]))


@pytest.mark.core
@pytest.mark.parametrize("mode", ["function", "xla"])
def test_a_traced_step_returns_whether_it_was_applied(family, mode):
    optimizer, x = wrapped(family, scale=4.0), tf.Variable([1.0])
    optimizer.build([x])
    step = in_mode(lambda gradient: optimizer.apply_gradients([(gradient, x)]), mode)
    results = [step(tf.constant([gradient])) for gradient in (1.0, NAN, 1.0)]
    assert [bool(applied) for applied in results] == [True, False, True]


# --- The statistics: `skipped_steps`, `consecutive_skipped_steps`, `last_step_skipped` and
# `last_overflow`.


@pytest.mark.parametrize(
    "mode, replicas",
    # XLA cannot compile how MirroredStrategy merges replicas.
    [("xla", 1), ("eager", 2), ("function", 2)],
)
def test_steps_are_counted_and_overflows_are_named(family, mode, replicas, mirrored2):
    strategy = mirrored2 if replicas == 2 else tf.distribute.get_strategy()
    with strategy.scope():
        optimizer = wrapped(family, scale=2.0)
        variables = [tf.Variable([1.0, 2.0], name=name) for name in "abc"]

    def counts():
        return [
            optimizer.skipped_steps,
            optimizer.consecutive_skipped_steps,
            optimizer.last_step_skipped,
        ]

    def replica_step(*values):
        gradients = [value * 1.0 for value in values]  # a tensor on each replica
        optimizer.apply_gradients(zip(gradients, variables))
        return counts()

    step = in_mode(lambda *values: strategy.run(replica_step, args=values), mode)
    assert optimizer.last_overflow == []
    assert [int(count) for count in counts()] == [0, 0, 0]
    good, inf, nan, both = [1.0, 1.0], [1.0, -INF], [NAN, 1.0], [NAN, INF]
    # The gradients of the variables a, b and c, the counts after the step, and the overflow.
    steps = [
        ((good, good, good), [0, 0, False], []),
        ((inf, good, nan), [1, 1, True], [("a", "inf"), ("c", "nan")]),
        ((good, both, good), [2, 2, True], [("b", "inf, nan")]),
        ((good, good, good), [2, 0, False], [("b", "inf, nan")]),
        ((nan, nan, nan), [3, 1, True], [("a", "nan"), ("b", "nan"), ("c", "nan")]),
        ((good, good, good), [3, 0, False], [("a", "nan"), ("b", "nan"), ("c", "nan")]),
    ]
    for gradients, expected, overflow in steps:
        in_step = step(*map(tf.constant, gradients))
        for count, wanted in zip(in_step, expected, strict=True):
            on_replicas = strategy.experimental_local_results(count)
            assert {value.numpy() for value in on_replicas} == {wanted}
        assert [int(count) for count in counts()] == expected
        assert optimizer.last_overflow == overflow
    assert optimizer.skipped_steps.dtype == tf.int64
    assert optimizer.last_step_skipped.dtype == tf.bool


@pytest.mark.parametrize("mode", MODES)
def test_the_sum_of_repeated_rows_decides_what_is_named(family, mode):
    optimizer = wrapped(family, scale=2.0)
    table = tf.Variable(np.zeros([3, 2], np.float32), name="table")
    largest = tf.float32.max

    def step(rows):
        slices = tf.IndexedSlices(rows, tf.constant([1, 1]), tf.constant([3, 2]))
        optimizer.apply_gradients([(slices, table)])

    step = in_mode(step, mode)
    step(tf.constant([[largest, 1.0], [largest, 1.0]]))  # finite, but their sum is not
    assert optimizer.last_overflow == [("table", "inf")]
    step(tf.constant([[1.0, 1.0], [NAN, 1.0]]))
    assert optimizer.last_overflow == [("table", "nan")]


@pytest.mark.parametrize("mode", MODES)
def test_a_variable_in_several_pairs_is_named_once(family, mode):
    optimizer, x = wrapped(family, scale=4.0), tf.Variable([1.0, 2.0], name="x")

    def step(*gradients):
        optimizer.apply_gradients([(gradient, x) for gradient in gradients])

    run = in_mode(step, mode)
    run(tf.constant([1.0, INF]), tf.constant([1.0, INF]))
    assert optimizer.last_overflow == [("x", "inf")]
    run(tf.constant([1.0, NAN]), tf.constant([1.0, INF]), tf.constant([1.0, NAN]))
    assert optimizer.last_overflow == [("x", "inf, nan")]


def test_a_finite_step_of_more_variables_keeps_the_last_overflow():
    optimizer = wrapped("legacy")
    x, y = tf.Variable(1.0, name="x"), tf.Variable(1.0, name="y")
    apply = optimizer.apply_gradients
    tf.function(lambda: apply([(tf.constant(INF), x)]))()
    tf.function(lambda: apply([(tf.constant(1.0), v) for v in (x, y)]))()
    assert optimizer.last_overflow == [("x", "inf")]


def test_an_overflow_is_that_of_its_own_variable():
    """A traced step joins small gradients, and checks each large one by itself."""
    optimizer = wrapped(CURRENT, scale=4.0)
    sizes = (2, 5000, 3, 6000)
    variables = [tf.Variable(tf.ones(n), name=f"v{i}") for i, n in enumerate(sizes)]
    optimizer.build(variables)

    @tf.function
    def step(factors):
        gradients = [f * tf.ones(n) for f, n in zip(tf.unstack(factors), sizes)]
        optimizer.apply_gradients(zip(gradients, variables))

    for bad in range(4):
        step(tf.constant([INF if n == bad else 1.0 for n in range(4)]))
        assert optimizer.last_overflow == [(f"v{bad}", "inf")]


@pytest.mark.parametrize("mode", ["function", "xla"])
def test_the_last_step_is_named_whether_it_was_eager_or_traced(mode):
    optimizer, x = wrapped(CURRENT, scale=64.0), tf.Variable(1.0, name="x")
    optimizer.build([x])

    def step(gradient):
        optimizer.apply_gradients([(gradient, x)])

    for take_step, value in ((in_mode(step, mode), INF), (step, NAN)) * 2:
        take_step(tf.constant(value))
        assert optimizer.last_overflow == [("x", "inf" if value == INF else "nan")]


@needs_keras3
def test_a_variable_of_keras_3_is_named_by_its_path():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1, name="head")])
    optimizer = wrapped("keras3")
    gradients = [tf.fill([2, 1], NAN), tf.constant([1.0])]
    optimizer.apply(gradients, model.trainable_variables)
    (overflow,) = optimizer.last_overflow
    assert overflow.variable.endswith("head/kernel")


@pytest.mark.parametrize("mode", ["eager", "function"])
def test_a_users_own_scale_names_the_overflow_of_any_replica(mode, mirrored2):
    """Gradients that the program has summed itself may differ between the replicas."""

    class Skipping(tf_lso.FixedLossScale):
        def update(self, grads):
            return None, False

    with mirrored2.scope():
        x = tf.Variable(1.0, name="x")
        inner = FAMILIES[CURRENT].SGD(0.5)
        optimizer = experimental.LossScaleOptimizer(inner, Skipping(8.0))
        optimizer.build([x])

    def replica_step(gradient):
        optimizer.apply_gradients([(gradient, x)], skip_gradients_aggregation=True)

    step = in_mode(lambda value: mirrored2.run(replica_step, args=(value,)), mode)
    step(per_replica(mirrored2, (1.0, NAN)))
    assert optimizer.last_overflow == [("x", "nan")]


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_checkpoints_do_not_contain_the_statistics(family, tmp_path):
    optimizer = wrapped(family, scale=4.0)
    step = make_step(optimizer, "eager")

    def keys_after(value):
        step(value)
        checkpoint = tf.train.Checkpoint(optimizer=optimizer)
        path = checkpoint.write(str(tmp_path / str(value)))
        return [name for name, _ in tf.train.list_variables(path)]

    keys = keys_after(1.0)
    assert keys_after(NAN) == keys
    assert not [key for key in keys if "skipped" in key or "overflow" in key]


def test_setting_the_scale_does_not_change_the_statistics():
    optimizer = wrapped(CURRENT, scale=4.0)
    step = make_step(optimizer, "eager")
    for number in (1, 2, 3):
        step(NAN)
        optimizer.loss_scale = 64.0
        assert int(optimizer.consecutive_skipped_steps) == number
    step(1.0)
    optimizer.loss_scale = 64.0
    assert not bool(optimizer.last_step_skipped)


def test_two_optimizers_with_one_loss_scale_have_their_own_statistics():
    scale = tf_lso.DynamicLossScale(16.0)
    first, second = (
        experimental.LossScaleOptimizer(FAMILIES[CURRENT].SGD(0.1), scale)
        for _ in range(2)
    )
    step = make_step(first, "eager")
    step(NAN)
    make_step(second, "function")(1.0)
    assert bool(first.last_step_skipped) and not bool(second.last_step_skipped)
    step(1.0)
    assert not bool(first.last_step_skipped)


def test_the_statistics_add_operations_only_to_the_branches_of_a_step(
    family, monkeypatch
):
    """A usual step, which runs no branch, is as fast as without the statistics."""
    variables = [tf.Variable([1.0, 2.0], name=name) for name in "abcd"]

    def operations_outside_of_branches():
        optimizer = wrapped(family, scale=4.0)

        @tf.function
        def step(gradients):
            optimizer.apply_gradients(zip(gradients, variables))

        graph = step.get_concrete_function([tf.constant([1.0, 1.0])] * 4).graph
        types = [operation.type for operation in graph.get_operations()]
        # Placeholders are the inputs of the graph. They include the captured variables.
        return sorted(t for t in types if t != "Placeholder")

    with_statistics = operations_outside_of_branches()
    monkeypatch.setattr(skipped.Skipped, "note_skipped", lambda self, kinds, vars: [])
    monkeypatch.setattr(skipped.Skipped, "note_applied", lambda self: [])
    assert operations_outside_of_branches() == with_statistics


# --- The scale.


@pytest.mark.parametrize("mode", MODES)
def test_setting_the_scale_changes_traced_steps_and_resets_the_count(family, mode):
    optimizer, x = wrapped(family, scale=4.0), tf.Variable(1.0)
    optimizer.build([x])
    step = in_mode(lambda: legacy_step(optimizer, lambda: 2.0 * x, [x]), mode)
    step()
    assert int(optimizer.dynamic_counter) == 1
    optimizer.loss_scale = 64
    assert float(optimizer.loss_scale) == 64.0
    assert int(optimizer.dynamic_counter) == 0
    scaled_loss = in_mode(lambda: optimizer.get_scaled_loss(2.0 * x), mode)
    assert float(scaled_loss()) == pytest.approx(128.0 * 0.8)
    optimizer.loss_scale = 32
    assert float(scaled_loss()) == pytest.approx(64.0 * 0.8)
    step()
    assert float(x) == pytest.approx(0.6)


@pytest.mark.parametrize("second", ["fewer", "another order", "others"])
def test_a_second_trace_with_other_variables_creates_no_variable(family, second):
    """A `tf.function` may create variables only in its first trace."""
    optimizer = wrapped(family, "SGD", 1.0, scale=4.0)
    x, y = tf.Variable(0.0, name="x"), tf.Variable(0.0, name="y")
    lists = {"fewer": [x], "another order": [y, x], "others": [y]}
    first = [x] if second == "others" else [x, y]
    if second == "others" and family != "legacy":
        optimizer.build([x, y])

    @tf.function(autograph=False)
    def step(value, is_second):
        variables = lists[second] if is_second else first
        optimizer.apply_gradients([(value, variable) for variable in variables])
        return len(variables)

    step(tf.constant(1.0), False)
    step(tf.constant(1.0), True)
    step(tf.constant(INF), True)
    assert optimizer.last_overflow == [(v.name[0], "inf") for v in lists[second]]
    step(tf.constant(NAN), False)
    assert optimizer.last_overflow == [(v.name[0], "nan") for v in first]
    assert int(optimizer.skipped_steps) == 2


def test_steps_of_programs_that_disable_parts_of_tensorflow_2():
    program = """
        import tensorflow as tf, tf_lso
        tf.compat.v1.disable_v2_behavior()
        tf.compat.v1.enable_eager_execution()
        x, y = tf.Variable(tf.ones([2, 3])), tf.Variable(1.0)
        opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(1.0), initial_scale=8.0)
        opt.build([x, y])

        @tf.function
        def step(factor):
            gradients = [factor * tf.ones([2, 3]), factor * tf.ones([])]
            opt.apply_gradients(zip(gradients, [x, y]))

        for factor in (1.0, float("inf")):
            step(tf.constant(factor))
        print(float(y), len(opt.last_overflow))
    """
    assert run(program, by=preloaded.run)[-1] == "0.0 2"
