"""Steps in TensorFlow 1 graphs, which run only what an operation depends on."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES
from tf_lso.keras.mixed_precision import experimental

V1 = tf.compat.v1


@pytest.mark.parametrize("loss_scale", [8, "dynamic"])
@pytest.mark.parametrize("method", ["minimize", "get_updates", "apply_gradients"])
def test_the_operation_does_the_step(family, loss_scale, method):
    with tf.Graph().as_default():
        v = V1.get_variable("v", initializer=2.0, use_resource=True)
        inner = FAMILIES[family].SGD(0.25)
        optimizer = experimental.LossScaleOptimizer(inner, loss_scale)
        factor = V1.placeholder(tf.float32, [])
        if method == "minimize":
            train = optimizer.minimize(lambda: factor * v, [v])
        elif method == "get_updates":
            (train,) = optimizer.get_updates(factor * v, [v])
        else:
            train = optimizer.apply_gradients([(factor * 1.0, v)])
        with V1.Session() as session:
            session.run(V1.global_variables_initializer())
            values = []
            for value in (1.0, 2.0, float("inf") if loss_scale == "dynamic" else 0.0):
                session.run(train, {factor: value})
                values.append(float(session.run(v)))
            np.testing.assert_allclose(values, [1.75, 1.25, 1.25])
            if loss_scale == "dynamic":
                assert session.run(optimizer.loss_scale()) == 2.0**14


def test_skipped_steps_in_a_row_are_counted(family):
    with tf.Graph().as_default():
        v = V1.get_variable("v", initializer=2.0, use_resource=True)
        optimizer = tf_lso.LossScaleOptimizer(
            FAMILIES[family].SGD(0.25), initial_scale=4.0, hysteresis=2
        )
        gradient = V1.placeholder(tf.float32, [])
        train = optimizer.apply_gradients([(gradient, v)])
        names = "loss_scale skipped_steps consecutive_skipped_steps last_step_skipped"
        read = [getattr(optimizer, name) for name in names.split()]
        read.append(optimizer.loss_scale_state.stuck_steps())
        with pytest.raises(RuntimeError, match="'loss_scale' cannot be set"):
            optimizer.loss_scale = 16.0
        with V1.Session() as session:
            session.run(V1.global_variables_initializer())
            inf, nan = float("inf"), float("nan")
            for value, expected in (
                (1.0, (4.0, 0, 0, False, 0)),
                (inf, (4.0, 1, 1, True, 0)),
                (nan, (2.0, 2, 2, True, 0)),
                (inf, (1.0, 3, 3, True, 0)),
                (inf, (1.0, 4, 4, True, 1)),
                (inf, (1.0, 5, 5, True, 2)),
                (1.0, (1.0, 5, 0, False, 0)),
                (inf, (1.0, 6, 1, True, 1)),
            ):
                session.run(train, {gradient: value})
                assert tuple(session.run(read)) == expected
