"""What a run that is going wrong is told, in eager mode and from within a graph."""

import logging
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import needs_keras3, wrapped
from tf_lso import graphs, log

NAN, INF = float("nan"), float("inf")
STUCK = "loss scale is at its minimum"
DAMAGED = "is no positive finite number"


def stuck_reports(text):
    return [line for line in text.splitlines() if STUCK in line]


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger="tensorflow")
    return caplog


def update(scale, value, times=1):
    for _ in range(times):
        scale.update([tf.constant(value)])


class TestInXla:
    def test_is_false_in_eager_mode(self):
        assert graphs.in_xla() is False

    @pytest.mark.parametrize("jit_compile", [None, False, True])
    def test_in_a_traced_function(self, jit_compile):
        seen = []

        @tf.function(jit_compile=jit_compile)
        def step():
            seen.append(graphs.in_xla())

        step()
        assert seen == [bool(jit_compile)]

    def test_is_true_in_a_function_that_a_compiled_one_calls(self):
        seen = []

        @tf.function
        def inner(x):
            seen.append(graphs.in_xla())
            return x

        @tf.function(jit_compile=True)
        def outer(x):
            return tf.cond(x > 0, lambda: inner(x), lambda: x)

        outer(tf.constant(1.0))
        assert all(seen) and seen


def warn_if_large(x):
    graphs.warn(x > 1, "large: {} in {}", x, X)


X = tf.constant("x")


class TestWarn:
    def test_logs_in_eager_mode(self, warnings):
        for value in (2, np.int64(3)):
            warn_if_large(value)
        found = [record.getMessage() for record in warnings.records]
        assert found == ["large: 2 in x", "large: 3 in x"]

    def test_is_silent_without_a_reason(self, warnings, capfd):
        warn_if_large(tf.constant(1.0))
        tf.function(lambda: warn_if_large(tf.constant(1.0)))()
        assert not warnings.records
        assert "large" not in capfd.readouterr().err

    def test_prints_at_each_run_of_a_graph(self, capfd):
        @tf.function
        def step(x):
            warn_if_large(x)

        for value in (1.0, 2.0, 3.0):
            step(tf.constant(value))
        lines = [
            line for line in capfd.readouterr().err.splitlines() if "large" in line
        ]
        assert lines == ["large: 2 in x", "large: 3 in x"]

    def test_compiles_with_xla(self):
        @tf.function(jit_compile=True)
        def step(x):
            warn_if_large(x)
            return x

        assert float(step(tf.constant(2.0))) == 2.0


class TestOnce:
    def test_says_each_message_once(self, warnings):
        once = log.Once()
        for message in ("a", "b", "a", "b"):
            once.warn(message)
        assert [record.getMessage() for record in warnings.records] == ["a", "b"]

    def test_speaks_for_one_object(self, warnings):
        for _ in range(2):
            log.Once().warn("a")
        assert len(warnings.records) == 2


def stepper(scale, **arguments):
    """Return a function that takes so many steps with a gradient of `value`."""
    optimizer = tf_lso.LossScaleOptimizer(
        tf.keras.optimizers.SGD(0.1), initial_scale=scale, **arguments
    )
    x = tf.Variable(1.0, name="x")

    def step(value, times=1):
        for _ in range(times):
            optimizer.apply_gradients([(tf.convert_to_tensor(value), x)])

    step.optimizer = optimizer
    return step


class TestAStuckScale:
    def test_is_reported_in_eager_mode_with_scale_and_remedy(self, warnings):
        step = stepper(1.0)
        step(NAN)
        (line,) = stuck_reports(warnings.text)
        assert "1.0 (steps in a row: 1)" in line
        assert "learning rate" in line and "min_scale" in line

    def test_is_not_reported_before_the_scale_is_at_its_floor(self, warnings):
        step = stepper(4.0)
        step(NAN, 2)
        assert float(step.optimizer.loss_scale) == 1.0
        assert not stuck_reports(warnings.text)

    def test_is_reported_at_the_1st_10th_and_100th_step(self, warnings):
        step = stepper(1.0)
        reported = []
        for number in range(1, 121):
            before = len(stuck_reports(warnings.text))
            step(NAN)
            if len(stuck_reports(warnings.text)) > before:
                reported.append(number)
        assert reported == [1, 10, 100]

    def test_counts_from_one_again_after_a_finite_step_that_grows(self, warnings):
        step = stepper(1.0, dynamic_growth_steps=1)
        step(NAN, 3)
        step(1.0)
        step(NAN, 2)
        assert len(stuck_reports(warnings.text)) == 2

    def test_counts_steps_in_a_row_only(self, warnings):
        step = stepper(1.0, dynamic_growth_steps=1000)
        for _ in range(9):
            step(NAN)
            step(1.0)
        step(NAN)
        assert "steps in a row: 10" not in warnings.text

    def test_uses_the_floor_that_was_set(self, warnings):
        step = stepper(1.0, min_scale=0.5)
        step(NAN)
        assert not stuck_reports(warnings.text)
        step(NAN)
        assert "0.5 (steps in a row: 1)" in warnings.text

    def test_is_reported_from_within_a_graph(self, capfd):
        step = stepper(1.0)
        traced = tf.function(step)
        for _ in range(12):
            traced(tf.constant(NAN))
        lines = stuck_reports(capfd.readouterr().err)
        assert len(lines) == 2
        assert "steps in a row: 1)" in lines[0]
        assert "steps in a row: 10)" in lines[1]

    def test_is_reported_through_an_optimizer(self, family, warnings):
        optimizer = wrapped(family, scale=1.0)
        x = tf.Variable(1.0, name="x")
        optimizer.minimize(lambda: x * NAN, [x])
        (line,) = stuck_reports(warnings.text)
        assert "Not finite: x (nan)." in line
        assert float(x) == 1.0

    @needs_keras3
    def test_names_the_first_variables_and_no_more(self, warnings, capfd):
        optimizer = wrapped("keras3", scale=1.0)
        variables = [tf.Variable(1.0, name=f"v{i}") for i in range(12)]

        def step(gradients):
            optimizer.apply_gradients(zip(gradients, variables))

        gradients = [tf.constant(INF if i % 2 else 1.0) for i in range(12)]
        gradients[3] = tf.constant(NAN)
        step(gradients)
        optimizer.loss_scale = 1.0  # the count starts again
        tf.function(step)(gradients)
        for text in (warnings.text, capfd.readouterr().err):
            (line,) = stuck_reports(text)
            names = "v1 (inf), v3 (nan), v5 (inf), v7 (inf), v9 (inf)"
            assert f"Not finite: {names}." in line

    def test_is_told_by_the_next_eager_read_where_xla_cannot_print(self, warnings):
        step = stepper(1.0)
        compiled = tf.function(step, jit_compile=True)
        compiled(tf.constant(NAN))
        assert not stuck_reports(warnings.text)
        assert int(step.optimizer.skipped_steps) == 1
        (line,) = stuck_reports(warnings.text)
        assert "1.0 (steps in a row: 1). Not finite: x (nan)." in line
        assert bool(step.optimizer.last_step_skipped)
        assert len(stuck_reports(warnings.text)) == 1  # once for each skipped step

    def test_does_not_keep_xla_from_compiling(self, family):
        optimizer = wrapped(family, scale=1.0)
        x = tf.Variable(1.0)

        @tf.function(jit_compile=True)
        def step(gradient):
            optimizer.apply_gradients([(gradient, x)])

        step(tf.constant(NAN))
        assert float(x) == 1.0
        assert float(optimizer.loss_scale) == 1.0

    def test_is_reported_once_for_all_replicas(self, mirrored2, capfd):
        with mirrored2.scope():
            step = stepper(1.0)
        mirrored2.run(tf.function(lambda: step(tf.constant(NAN))))
        assert len(stuck_reports(capfd.readouterr().err)) == 1


class TestADamagedScale:
    @pytest.mark.parametrize("value", [NAN, INF, 0.0, -4.0])
    @pytest.mark.parametrize("gradient", [1.0, NAN])
    def test_returns_to_the_initial_scale_with_a_warning(
        self, warnings, value, gradient
    ):
        scale = tf_lso.DynamicLossScale(64.0, 1)
        scale._current_loss_scale.assign(value)
        scale._num_good_steps.assign(5)
        update(scale, gradient)
        assert float(scale()) == 64.0
        assert int(scale._num_good_steps) == 0
        (said,) = warnings.records
        assert DAMAGED in said.getMessage()
        assert "64.0" in said.getMessage()

    def test_is_reported_from_within_a_graph(self, capfd):
        scale = tf_lso.DynamicLossScale(64.0)
        scale._current_loss_scale.assign(NAN)
        tf.function(lambda: scale.update([tf.constant(1.0)])[1])()
        assert DAMAGED in capfd.readouterr().err
        assert float(scale()) == 64.0

    def test_recovers_through_an_optimizer(self, family, warnings):
        optimizer = wrapped(family, scale=64.0)
        x = tf.Variable(1.0)
        optimizer.loss_scale_state._current_loss_scale.assign(NAN)
        optimizer.minimize(lambda: 2.0 * x, [x])
        assert float(x) == 1.0  # scaled by NaN: the step is skipped
        assert float(optimizer.loss_scale) == 64.0
        assert DAMAGED in warnings.text
        optimizer.minimize(lambda: 2.0 * x, [x])
        assert float(x) == pytest.approx(0.8)

    def test_a_usable_scale_is_not_reported(self, warnings):
        scale = tf_lso.DynamicLossScale(64.0)
        update(scale, 1.0)
        update(scale, NAN)
        assert not warnings.records


def overflow(traced):
    step = stepper(1.0)
    run = tf.function(step, autograph=False) if traced else step
    for _ in range(30):
        run(tf.constant(NAN))


class TestTheLoggerIsTensorFlows:
    """Programs silence it by `tf.get_logger().setLevel`, and expect to be obeyed."""

    @pytest.fixture
    def only_errors(self):
        logger = tf.get_logger()
        level = logger.level
        logger.setLevel("ERROR")
        yield
        logger.setLevel(level)

    @pytest.mark.parametrize("traced", [False, True])
    def test_no_warning_is_seen_where_only_errors_are_wanted(
        self, only_errors, traced, caplog, capfd
    ):
        overflow(traced)
        log.Once().warn("a word")
        assert STUCK not in capfd.readouterr().err + caplog.text
        assert "a word" not in caplog.text

    @pytest.mark.parametrize("traced", [False, True])
    def test_else_it_is(self, traced, caplog, capfd):
        overflow(traced)
        assert STUCK in capfd.readouterr().err + caplog.text
        assert {r.name for r in caplog.records} <= {"tensorflow"}

    def test_no_other_is_used(self):
        package = pathlib.Path(tf_lso.__file__).parent
        for path in package.rglob("*.py"):
            if "examples" not in path.parts:
                assert "absl" not in path.read_text(encoding="utf-8"), path
