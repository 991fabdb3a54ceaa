"""What a run that is going wrong is told, in eager mode and from within a graph."""

import logging
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import needs_keras3, wrapped
from tf_lso.frameworks import graphs, log

PAGES = pathlib.Path(__file__).parents[2] / "compat_docs"
NAN, INF = float("nan"), float("inf")
STUCK = "loss scale is at its minimum"
DAMAGED = "is not a positive finite number"


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger="tensorflow")
    return caplog


@pytest.fixture
def said(warnings, capfd):
    """All that was said so far, in eager mode and from within graphs, when called."""
    printed = []

    def lines(part=""):
        # TensorFlow's logger also prints what `warnings` holds.
        lines = capfd.readouterr().err.splitlines()
        printed.extend(x for x in lines if not x.startswith("WARNING:tensorflow:"))
        return [line for line in [*printed, *warnings.messages] if part in line]

    return lines


@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_in_xla(jit_compile):
    seen = []

    @tf.function
    def inner(x):
        seen.append(graphs.in_xla())
        return x

    @tf.function(jit_compile=jit_compile)
    def outer(x):
        seen.append(graphs.in_xla())
        return tf.cond(x > 0, lambda: inner(x), lambda: x)

    assert graphs.in_xla() is False
    outer(tf.constant(1.0))
    assert set(seen) == {bool(jit_compile)}


def warn_if_large(x):
    graphs.warn(x > 1, "large: {} in {}", x, tf.constant("x"))


def test_warn_logs_in_eager_mode(warnings):
    for value in (2, np.int64(3), tf.constant(1.0)):
        warn_if_large(value)
    assert warnings.messages == ["large: 2 in x", "large: 3 in x"]


def test_warn_prints_at_each_run_of_a_graph(said, warnings):
    step = tf.function(warn_if_large)
    for value in (1.0, 2.0, 3.0):
        step(tf.constant(value))
    assert said("large") == ["large: 2 in x", "large: 3 in x"]
    assert not warnings.messages


def test_once_says_each_message_once_for_one_object(warnings):
    once = log.Once()
    for message in ("a", "b", "a", "b"):
        once.warn(message)
    log.Once().warn("a")
    assert warnings.messages == ["a", "b", "a"]


def stepper(scale, **arguments):
    """Return a function that takes so many steps with a gradient of `value`."""
    inner, x = tf.keras.optimizers.SGD(0.1), tf.Variable(1.0, name="x")
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=scale, **arguments)

    def step(value, times=1):
        for _ in range(times):
            optimizer.apply_gradients([(tf.convert_to_tensor(value), x)])

    step.optimizer = optimizer
    return step


class TestAStuckScale:
    def test_is_not_reported_before_the_scale_is_at_its_floor(self, said):
        step = stepper(4.0, min_scale=0.5)
        step(NAN, 3)
        assert float(step.optimizer.loss_scale) == 0.5
        assert not said(STUCK)
        step(NAN)
        (line,) = said(STUCK)
        assert "0.5 (steps in a row: 4)" in line
        assert "learning rate" in line and "min_scale" in line

    def test_is_reported_at_each_power_of_two(self, said):
        step = stepper(1.0)
        reports = []
        for _ in range(20):
            step(NAN)
            reports.append(len(said(STUCK)))
        assert reports == [1, 2, 2, 3, 3, 3, 3, *[4] * 8, *[5] * 5]

    @pytest.mark.parametrize("page", ["how-to/scale.md", "reference/differences.md"])
    def test_the_pages_say_at_which_steps_it_is_reported(self, page):
        text = (PAGES / page).read_text(encoding="utf-8")
        assert re.search(
            "1st, 2nd, 4th, 8th,? (\\.\\.\\.|…) (skipped step )?in a row", text
        )

    @pytest.mark.parametrize("growth", [1, 1000])
    def test_counts_steps_in_a_row_only(self, said, growth):
        step = stepper(1.0, dynamic_growth_steps=growth)
        for _ in range(9):
            step(NAN)
            step(1.0)
        step(NAN, 2)  # at 2 first if the scale grew
        assert not said("steps in a row: 4")
        assert len(said(STUCK)) == (2 if growth == 1 else 11)

    @pytest.mark.parametrize("traced", [False, True])
    def test_is_reported_through_an_optimizer(self, family, traced, said):
        optimizer, x = wrapped(family, scale=1.0), tf.Variable(1.0, name="x")
        step = lambda: optimizer.minimize(lambda: x * NAN, [x])  # noqa: E731
        step = tf.function(step) if traced else step
        for _ in range(12):
            step()
        first, *_, last = said(STUCK)
        assert "steps in a row: 1). Not finite: x (nan)." in first
        assert "steps in a row: 8)" in last
        assert float(x) == 1.0

    @needs_keras3
    def test_names_the_first_variables_and_no_more(self, said):
        optimizer = wrapped("keras3", scale=1.0)
        variables = [tf.Variable(1.0, name=f"v{i}") for i in range(12)]
        gradients = [tf.constant(INF if i % 2 else 1.0) for i in range(12)]
        gradients[3] = tf.constant(NAN)
        step = lambda: optimizer.apply_gradients(zip(gradients, variables))  # noqa: E731
        step()
        optimizer.loss_scale = 1.0  # the count starts again
        tf.function(step)()
        names = "v1 (inf), v3 (nan), v5 (inf), v7 (inf), v9 (inf)"
        reports = said(STUCK)
        assert len(reports) == 2
        assert all(f"Not finite: {names}." in report for report in reports)

    @pytest.mark.parametrize(
        "read", ["skipped_steps", "consecutive_skipped_steps", "last_overflow"]
    )
    def test_is_told_by_the_next_eager_read_where_xla_cannot_print(self, read, said):
        step = stepper(1.0)
        tf.function(step, jit_compile=True)(tf.constant(NAN))
        assert not said(STUCK)
        getattr(step.optimizer, read)
        (line,) = said(STUCK)
        assert "1.0 (steps in a row: 1). Not finite: x (nan)." in line
        assert int(step.optimizer.skipped_steps) == 1
        assert bool(step.optimizer.last_step_skipped)
        assert len(said(STUCK)) == 1  # once for each skipped step

    def test_is_reported_once_for_all_replicas(self, mirrored2, said):
        with mirrored2.scope():
            step = stepper(1.0)
        mirrored2.run(tf.function(lambda: step(tf.constant(NAN))))
        assert len(said(STUCK)) == 1


class TestADamagedScale:
    @pytest.mark.parametrize("value", [NAN, INF, 0.0, -4.0, 64.0])
    @pytest.mark.parametrize("gradient", [1.0, NAN])
    def test_returns_to_the_initial_scale_with_a_warning(
        self, warnings, value, gradient
    ):
        scale = tf_lso.DynamicLossScale(64.0, 1)
        scale._current_loss_scale.assign(value)
        scale._num_good_steps.assign(5)
        scale.update([tf.constant(gradient)])
        assert int(scale._num_good_steps) == 0
        if value == 64.0:  # which can be used
            assert not warnings.records
            return
        assert float(scale()) == 64.0
        (message,) = warnings.messages
        assert DAMAGED in message and "64.0" in message

    @pytest.mark.parametrize("traced", [False, True])
    def test_recovers_through_an_optimizer(self, family, traced, said):
        optimizer, x = wrapped(family, scale=64.0), tf.Variable(1.0)
        optimizer.build([x])
        optimizer.loss_scale_state._current_loss_scale.assign(NAN)
        step = lambda: optimizer.minimize(lambda: 2.0 * x, [x])  # noqa: E731
        step = tf.function(step) if traced else step
        step()
        assert float(x) == 1.0  # scaled by NaN: the step is skipped
        assert float(optimizer.loss_scale) == 64.0
        assert said(DAMAGED)
        step()
        assert float(x) == pytest.approx(0.8)


class TestTheLoggerIsTensorFlows:
    """Programs silence it by `tf.get_logger().setLevel`, and expect to be obeyed."""

    @pytest.mark.parametrize("traced", [False, True])
    @pytest.mark.parametrize("level", ["ERROR", "WARNING"])
    def test_its_level_is_obeyed(self, level, traced, said, caplog):
        caplog.set_level(level, logger="tensorflow")
        step = stepper(1.0)
        step = tf.function(step, autograph=False) if traced else step
        step(tf.constant(NAN))
        log.Once().warn("a word")
        assert bool(said(STUCK)) == bool(said("a word")) == (level == "WARNING")
        assert {record.name for record in caplog.records} <= {"tensorflow"}

    def test_no_other_is_used(self):
        package = pathlib.Path(tf_lso.__file__).parent
        for path in package.rglob("*.py"):
            if "examples" not in path.parts:
                assert "absl" not in path.read_text(encoding="utf-8"), path
