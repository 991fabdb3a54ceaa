"""Warnings of runs that go wrong, in eager mode and in graphs."""

import logging

import pytest
import tensorflow as tf

import tf_lso
from tests.families import CURRENT, wrapped
from tf_lso.frameworks import graphs, log

NAN, INF = float("nan"), float("inf")
STUCK = "loss scale is at its minimum"
DAMAGED = "is not a positive finite number"


@pytest.fixture
def logged(caplog):
    """The records of the warnings that TensorFlow's logger has logged."""
    caplog.set_level(logging.WARNING, logger="tensorflow")
    return caplog


@pytest.fixture
def reported(logged, capfd):
    """A function that returns all warnings so far that contain a text.

    Eager code logs warnings, and graphs print them.
    """
    printed = []

    def warnings_with(text):
        for line in capfd.readouterr().err.splitlines():
            # TensorFlow's logger also prints the messages of `logged`.
            if not line.startswith("WARNING:tensorflow:"):
                printed.append(line)
        return [line for line in [*printed, *logged.messages] if text in line]

    return warnings_with


@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_in_xla_is_true_only_under_jit_compile(jit_compile):
    results = []

    @tf.function
    def inner(x):
        results.append(graphs.in_xla())
        return x

    @tf.function(jit_compile=jit_compile)
    def outer(x):
        results.append(graphs.in_xla())
        return tf.cond(x > 0, lambda: inner(x), lambda: x)

    assert graphs.in_xla() is False
    outer(tf.constant(1.0))
    assert set(results) == {bool(jit_compile)}


def make_step(scale, **arguments):
    """Return a function that takes one or more steps with a gradient of `value`."""
    inner, x = tf.keras.optimizers.SGD(0.1), tf.Variable(1.0, name="x")
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=scale, **arguments)

    def step(value, times=1):
        for _ in range(times):
            optimizer.apply_gradients([(tf.convert_to_tensor(value), x)])

    step.optimizer = optimizer
    return step


class TestAStuckScale:
    def test_is_not_reported_before_the_scale_is_at_its_floor(self, reported):
        step = make_step(4.0, min_scale=0.5)
        step(NAN, 3)
        assert float(step.optimizer.loss_scale) == 0.5
        assert not reported(STUCK)
        step(NAN)  # the first step that cannot halve the scale
        (line,) = reported(STUCK)
        assert "0.5 (steps in a row: 4)" in line
        assert "data and the loss" in line and "min_scale" in line
        assert "last_overflow" in line and "debugging.explain" in line

    @pytest.mark.parametrize("traced", [False, True])
    def test_is_reported_at_each_power_of_two(self, traced, reported):
        step, numbers = make_step(1.0), []
        optimizer, step = step.optimizer, tf.function(step) if traced else step
        for number in range(1, 21):
            reports_before = len(reported(STUCK))
            step(tf.constant(NAN))
            # Reading the counts does not report the same step again.
            assert int(optimizer.skipped_steps) == number
            if len(reported(STUCK)) > reports_before:
                numbers.append(number)
        assert numbers == [1, 2, 4, 8, 16]
        assert len(reported(STUCK)) == 5

    @pytest.mark.parametrize("growth", [1, 1000])
    def test_counts_only_steps_in_a_row(self, reported, growth):
        step = make_step(1.0, dynamic_growth_steps=growth)
        for _ in range(9):
            step(NAN)
            step(1.0)
        step(NAN, times=2)
        assert not reported("steps in a row: 4")
        # With a growth after each finite step, only the first and the last step are skipped at
        # the smallest scale. Otherwise all eleven skipped steps are.
        assert len(reported(STUCK)) == (2 if growth == 1 else 11)

    @pytest.mark.parametrize(
        "read", ["skipped_steps", "consecutive_skipped_steps", "last_overflow"]
    )
    def test_is_reported_by_the_next_eager_read_after_a_step_in_xla(
        self, read, reported
    ):
        step = make_step(1.0)
        tf.function(step, jit_compile=True)(tf.constant(NAN))
        assert not reported(STUCK)  # XLA cannot print
        getattr(step.optimizer, read)
        (line,) = reported(STUCK)
        assert "1.0 (steps in a row: 1)" in line
        assert int(step.optimizer.skipped_steps) == 1
        assert bool(step.optimizer.last_step_skipped)
        # Later reads do not report the same step again.
        assert len(reported(STUCK)) == 1

    def test_is_reported_once_for_all_replicas(self, mirrored2, reported):
        with mirrored2.scope():
            step = make_step(1.0)
        mirrored2.run(tf.function(lambda: step(tf.constant(NAN))))
        assert len(reported(STUCK)) == 1


class TestADamagedScale:
    @pytest.mark.parametrize("value", [NAN, INF, 0.0, -4.0])
    def test_returns_to_the_initial_scale_with_one_warning(self, logged, value):
        scale = tf_lso.DynamicLossScale(64.0, 1000)
        scale._current_loss_scale.assign(value)
        for gradient in (1.0, 1.0, NAN):
            scale.update([tf.constant(gradient)])
        assert float(scale()) == 32.0
        (message,) = logged.messages
        assert DAMAGED in message and "64.0" in message

    def test_recovers_through_an_optimizer(self, reported):
        optimizer, x = wrapped(CURRENT, scale=64.0), tf.Variable(1.0)
        optimizer.build([x])
        optimizer.loss_scale_state._current_loss_scale.assign(NAN)
        step = tf.function(lambda: optimizer.minimize(lambda: 2.0 * x, [x]))
        step()
        assert float(x) == 1.0  # the scaled gradient is NaN, so the step is skipped
        assert float(optimizer.loss_scale) == 64.0
        assert reported(DAMAGED)
        step()
        assert float(x) == pytest.approx(0.8)


class TestTheLoggerOfTensorFlow:
    """Programs silence TensorFlow's logger by `tf.get_logger().setLevel`."""

    @pytest.mark.parametrize("traced", [False, True])
    @pytest.mark.parametrize("level", ["ERROR", "WARNING"])
    def test_its_level_is_obeyed(self, level, traced, reported, caplog):
        caplog.set_level(level, logger="tensorflow")
        step = make_step(1.0)
        step = tf.function(step, autograph=False) if traced else step
        step(tf.constant(NAN))
        log.Once().warn("another warning")
        is_expected = level == "WARNING"
        assert bool(reported(STUCK)) == is_expected
        assert bool(reported("another warning")) == is_expected
        assert {record.name for record in caplog.records} <= {"tensorflow"}
