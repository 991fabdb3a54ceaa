"""`tf_lso.raise_if_stuck` and `tf_lso.summary.loss_scale`, which training loops call."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import CURRENT, FAMILIES, needs_keras3, takes_optimizers, wrapped
from tests.test_callbacks import logged_scalars, scalars

NAN, INF = float("nan"), float("inf")


class TestRaiseIfStuck:
    @pytest.mark.parametrize("jit_compile", [None, True])
    def test_raises_after_the_given_number_of_skipped_steps(self, family, jit_compile):
        optimizer = wrapped(family, scale=2.0)
        x = tf.Variable(1.0, name="x")

        def step(gradient):
            optimizer.apply_gradients([(gradient, x)])

        if jit_compile is not None:
            step = tf.function(step, jit_compile=jit_compile)
        for _ in range(2):  # the first step brings the scale to its minimum, 1
            step(tf.constant(INF))
            tf_lso.raise_if_stuck(optimizer, patience=3)
        step(tf.constant(INF))
        with pytest.raises(RuntimeError, match=r"last 3 .* x \(inf\).*lower the lear"):
            tf_lso.raise_if_stuck(optimizer, patience=3)
        step(tf.constant(1.0))
        tf_lso.raise_if_stuck(optimizer, patience=3)

    def test_names_five_variables_and_the_probable_cause_of_nan(self):
        optimizer = wrapped(CURRENT, scale=1.0)
        variables = [tf.Variable(1.0) for _ in range(12)]
        optimizer.apply_gradients([(tf.constant(NAN), x) for x in variables])
        message = r"(\(nan\)[^(]*){5}and 7 more.*NaN most likely comes from the model"
        with pytest.raises(RuntimeError, match=message):
            tf_lso.raise_if_stuck(optimizer, patience=1)

    @takes_optimizers
    def test_does_not_raise_after_a_larger_scale_was_restored(self, family, tmp_path):
        optimizer = wrapped(family, scale=2.0)
        x = tf.Variable(1.0)
        checkpoint = tf.train.Checkpoint(optimizer=optimizer)
        path = checkpoint.save(str(tmp_path / "first"))
        for _ in range(3):
            optimizer.apply_gradients([(tf.constant(NAN), x)])
        checkpoint.restore(path)
        assert float(optimizer.loss_scale) == 2.0
        tf_lso.raise_if_stuck(optimizer, patience=1)

    def test_refuses_another_optimizer(self):
        with pytest.raises(TypeError, match=r"raise_if_stuck\(\) needs"):
            tf_lso.raise_if_stuck(FAMILIES[CURRENT].SGD(0.1))
        with pytest.raises(ValueError, match="'patience' must be"):
            tf_lso.raise_if_stuck(wrapped(CURRENT), patience=0)

    def test_refuses_a_call_in_a_traced_function(self):
        optimizer = wrapped(CURRENT, scale=1.0)
        with pytest.raises(
            RuntimeError, match=r"raise_if_stuck\(\) must .* eager code"
        ):
            tf.function(lambda: tf_lso.raise_if_stuck(optimizer))()


class TestSummary:
    @pytest.mark.parametrize("traced", [False, True])
    def test_writes_into_the_default_writer(self, family, traced, tmp_path):
        optimizer, x = wrapped(family, scale=8.0), tf.Variable(1.0)

        def step(gradient, number):
            optimizer.apply_gradients([(gradient, x)])
            tf_lso.summary.loss_scale(optimizer, number)
            return number

        step = tf.function(step) if traced else step
        with tf.summary.create_file_writer(str(tmp_path)).as_default():
            for number, gradient in enumerate([1.0, NAN, 1.0, NAN]):
                step(tf.constant(gradient), tf.constant(number, tf.int64))
        found = scalars(tmp_path)
        assert found["loss_scale"] == {0: 8.0, 1: 4.0, 2: 4.0, 3: 2.0}
        assert found["skipped_steps"] == {0: 0, 1: 1, 2: 1, 3: 2}

    @needs_keras3
    def test_is_written_once_for_all_replicas(self, tmp_path, mirrored2):
        with mirrored2.scope():
            optimizer = wrapped("keras3", scale=8.0)
            x = tf.Variable(1.0)

        @tf.function
        def step():
            optimizer.apply_gradients([(tf.identity(1.0), x)])
            tf_lso.summary.loss_scale(optimizer, tf.constant(7, tf.int64))

        with tf.summary.create_file_writer(str(tmp_path)).as_default():
            mirrored2.run(step)
        tags = sorted(tag for tag, _, _ in logged_scalars(tmp_path))
        assert tags == ["loss_scale", "skipped_steps"]

    def test_refuses_another_optimizer(self):
        with pytest.raises(TypeError, match=r"tf_lso.summary.loss_scale\(\) needs"):
            tf_lso.summary.loss_scale(FAMILIES[CURRENT].SGD(0.1))
