"""Steps in TensorFlow 1 graphs, which run only what an operation depends on."""

import numpy as np
import pytest
import tensorflow as tf

from tests.families import FAMILIES
from tf_lso.keras.mixed_precision import experimental

V1 = tf.compat.v1


@pytest.mark.parametrize("family", FAMILIES)
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
