"""What an optimizer says of the steps that it skipped, on every face and in every mode."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import CHECKPOINTED, FAMILIES, legacy_step, wrapped
from tests.generation import NO_CHECKPOINT
from tf_lso.keras.mixed_precision import experimental
from tf_lso.scaling import skipped

NAN, INF = float("nan"), float("inf")
MODES = {"eager": None, "function": False, "xla": True}
NONE = tf.distribute.get_strategy()


def in_mode(function, mode):
    if mode == "eager":
        return function
    return tf.function(function, jit_compile=MODES[mode])


@pytest.mark.parametrize(
    "mode, replicas",
    # MirroredStrategy merges replicas, which XLA cannot compile.
    [
        pytest.param("eager", 1, marks=pytest.mark.slow),
        pytest.param("function", 1, marks=pytest.mark.slow),
        ("xla", 1),
        ("eager", 2),
        ("function", 2),
    ],
)
def test_steps_are_counted_and_overflows_are_named(family, mode, replicas, mirrored2):
    strategy = mirrored2 if replicas == 2 else NONE
    with strategy.scope():
        optimizer = wrapped(family, scale=2.0)
        variables = [tf.Variable([1.0, 2.0], name=name) for name in "abc"]

    def read():
        names = ("skipped_steps", "consecutive_skipped_steps", "last_step_skipped")
        return [getattr(optimizer, name) for name in names]

    def step(*values):
        gradients = [value * 1.0 for value in values]  # each replica has its own
        optimizer.apply_gradients(zip(gradients, variables))
        return read()

    run = in_mode(lambda *values: strategy.run(step, args=values), mode)
    good, inf, nan, both = [1.0, 1.0], [1.0, -INF], [NAN, 1.0], [NAN, INF]
    assert optimizer.last_overflow == []
    assert [int(number) for number in read()] == [0, 0, 0]
    for given, expected, overflow in [
        ((good, good, good), (0, 0, False), {}),
        ((inf, good, nan), (1, 1, True), {"a": "inf", "c": "nan"}),
        ((good, both, good), (2, 2, True), {"b": "inf, nan"}),
        ((good, good, good), (2, 0, False), {"b": "inf, nan"}),
        ((nan, nan, nan), (3, 1, True), dict.fromkeys("abc", "nan")),
        ((good, good, good), (3, 0, False), dict.fromkeys("abc", "nan")),
    ]:
        for number, wanted in zip(run(*map(tf.constant, given)), expected):
            local = strategy.experimental_local_results(number)
            assert {value.numpy() for value in local} == {wanted}
        assert optimizer.last_overflow == list(overflow.items())
        assert [int(number) for number in read()] == list(expected)
    dtypes = [optimizer.skipped_steps.dtype, optimizer.last_step_skipped.dtype]
    assert dtypes == [tf.int64, tf.bool]


@pytest.mark.parametrize("mode", MODES)
def test_slices_are_named_by_their_sum(family, mode):
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
    for values, kind in [((INF, INF), "inf"), ((NAN, INF, NAN), "inf, nan")]:
        run(*(tf.constant([1.0, value]) for value in values))
        assert optimizer.last_overflow == [("x", kind)]


def test_a_fixed_scale_skips_nothing(family):
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.1), False, 4.0)
    stepper(optimizer, "eager")(NAN)
    counts = optimizer.skipped_steps, optimizer.consecutive_skipped_steps
    assert [int(count) for count in counts] == [0, 0]
    assert not bool(optimizer.last_step_skipped)
    assert optimizer.last_overflow == []


def test_no_config_and_no_weights_hold_the_statistics(family):
    optimizer, held = wrapped(family, scale=4.0), []
    step = stepper(optimizer, "eager")
    for gradient in (1.0, NAN):
        step(gradient)
        held.append((optimizer.get_config(), len(optimizer.get_weights())))
    assert held[0] == held[1]


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_no_checkpoint_holds_the_statistics(family, tmp_path):
    optimizer, held = wrapped(family, scale=4.0), []
    step = stepper(optimizer, "eager")
    for number, gradient in enumerate((1.0, NAN)):
        step(gradient)
        path = saved(optimizer, tmp_path, number)
        keys = [name for name, _ in tf.train.list_variables(path)]
        held.append(keys)
    assert held[0] == held[1]
    assert not [key for key in keys if "skipped" in key or "overflow" in key]


def saved(optimizer, folder, number):
    return tf.train.Checkpoint(optimizer=optimizer).write(str(folder / str(number)))


def stepper(optimizer, mode, name="x", build=True):
    x = tf.Variable([1.0, 2.0], name=name)
    if build:
        optimizer.build([x])
    step = in_mode(lambda gradient: optimizer.apply_gradients([(gradient, x)]), mode)
    return lambda value: step(tf.constant([value, 1.0]))


# Functions of (optimizer, path of a checkpoint, weights of then).
ROLL_BACKS = {
    "iterations": lambda o, path, weights: setattr(o, "iterations", 1),
    "set_weights": lambda o, path, weights: o.set_weights(weights),
    "restore": lambda o, path, weights: tf.train.Checkpoint(optimizer=o).restore(path),
}


@pytest.mark.parametrize(
    "mode, growth_steps",
    # An applied step leaves the count of finite steps at 0, or at 0 and 1 in turn, or not at 0.
    [
        ("eager", 1),
        pytest.param("eager", 2000, marks=pytest.mark.slow),
        ("function", 2),
        ("function", 2000),
        pytest.param("xla", 1, marks=pytest.mark.slow),
        pytest.param("xla", 2, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("rolled_back", ROLL_BACKS)
def test_no_applied_step_passes_for_the_skipped_one_of_its_number(
    family, mode, growth_steps, rolled_back, tmp_path, request
):
    path = None
    if family == "keras3" and rolled_back == "restore":
        request.applymarker(NO_CHECKPOINT)
    optimizer = wrapped(family, scale=4.0, growth=growth_steps)
    step = stepper(optimizer, mode)
    step(1.0)
    if rolled_back == "restore":
        path = saved(optimizer, tmp_path, 1)
    weights = optimizer.get_weights()
    step(NAN)
    assert bool(optimizer.last_step_skipped)
    ROLL_BACKS[rolled_back](optimizer, path, weights)
    # It is the last step of this process, whatever was restored after it.
    assert bool(optimizer.last_step_skipped)
    for number in range(3):
        step(1.0)
        assert not bool(optimizer.last_step_skipped), number
        assert int(optimizer.consecutive_skipped_steps) == 0
    for number in (1, 2):
        step(INF)
        assert bool(optimizer.last_step_skipped)
        assert int(optimizer.consecutive_skipped_steps) == number
    assert int(optimizer.skipped_steps) == 3


def test_a_scale_that_is_set_hides_no_skipped_step(family):
    optimizer = wrapped(family, scale=4.0)
    step = stepper(optimizer, "eager")
    for number in (1, 2, 3):
        step(NAN)
        optimizer.loss_scale = 64.0
        assert int(optimizer.consecutive_skipped_steps) == number
    step(1.0)
    optimizer.loss_scale = 64.0
    assert not bool(optimizer.last_step_skipped)


def test_an_applied_step_of_another_optimizer_hides_no_skipped_step(family):
    scale = tf_lso.DynamicLossScale(16.0)
    first, second = (
        experimental.LossScaleOptimizer(FAMILIES[family].SGD(0.1), scale) for _ in "ab"
    )
    step = stepper(first, "eager")
    step(NAN)
    stepper(second, "function")(1.0)
    assert bool(first.last_step_skipped) and not bool(second.last_step_skipped)
    step(1.0)
    assert not bool(first.last_step_skipped)


def test_a_scale_of_ones_own_counts_its_skipped_steps_in_a_row(family):
    class Own(tf_lso.LossScale):
        def __call__(self):
            return tf.constant(2.0)

        def update(self, grads):
            return None, tf.reduce_all(tf.math.is_finite(grads[0]))

        def get_config(self):
            return {}

    optimizer = experimental.LossScaleOptimizer(FAMILIES[family].SGD(0.1), Own())
    step = stepper(optimizer, "eager")
    counts = []
    for value in (1.0, NAN, NAN, 1.0, NAN):
        step(value)
        counts.append(int(optimizer.consecutive_skipped_steps))
    assert counts == [0, 1, 2, 0, 1]


def test_a_usual_step_runs_no_operation_more(family, monkeypatch):
    """The statistics may add to the branches only."""
    variables = [tf.Variable([1.0, 2.0], name=name) for name in "abcd"]

    def operations():
        """The types of those outside of branches, but the placeholders of inputs."""
        optimizer = wrapped(family, scale=4.0)

        @tf.function
        def step(gradients):
            optimizer.apply_gradients(zip(gradients, variables))

        graph = step.get_concrete_function([tf.constant([1.0, 1.0])] * 4).graph
        types = [operation.type for operation in graph.get_operations()]
        return sorted(t for t in types if t != "Placeholder")

    with_statistics = operations()
    monkeypatch.setattr(skipped.Skipped, "note_skipped", lambda self, g, v: [])
    monkeypatch.setattr(skipped.Skipped, "note_applied", lambda self: [])
    assert operations() == with_statistics


@pytest.mark.parametrize("mode", MODES)
def test_a_scale_that_is_set_is_seen_by_traced_steps(family, mode):
    optimizer, x = wrapped(family, scale=4.0), tf.Variable(1.0)
    optimizer.build([x])
    step = in_mode(lambda: legacy_step(optimizer, lambda: 2.0 * x, [x]), mode)
    step()
    assert int(optimizer.dynamic_counter) == 1
    optimizer.loss_scale = 64
    assert float(optimizer.loss_scale) == 64.0
    assert int(optimizer.dynamic_counter) == 0
    scaled = in_mode(lambda: optimizer.get_scaled_loss(2.0 * x), mode)
    assert float(scaled()) == pytest.approx(128.0 * 0.8)
    optimizer.loss_scale = 32
    assert float(scaled()) == pytest.approx(64.0 * 0.8)
    step()
    assert float(x) == pytest.approx(0.6)


def test_the_scale_of_the_experimental_optimizer_is_an_object_to_assign_to(family):
    optimizer = wrapped(family, api="experimental")
    optimizer.loss_scale.assign(4.0)
    assert float(optimizer.loss_scale) == 4.0


@pytest.mark.parametrize("mode", MODES)
def test_the_options_of_the_rule_move_the_scale(family, mode):
    optimizer = tf_lso.LossScaleOptimizer(
        FAMILIES[family].SGD(0.1),
        initial_scale=16.0,
        dynamic_growth_steps=2,
        growth_factor=4.0,
        backoff_factor=0.25,
        hysteresis=2,
    )
    step, scales = stepper(optimizer, mode), []
    for gradient in [NAN, 1.0, NAN, NAN, NAN, 1.0, 1.0, NAN]:
        step(gradient)
        scales.append(float(optimizer.loss_scale))
    assert scales == [16, 16, 16, 4, 1, 1, 4, 4]
