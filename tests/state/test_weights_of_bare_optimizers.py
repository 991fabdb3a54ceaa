"""`set_weights` of a wrapped optimizer with the values of an optimizer without a wrapper."""

import numpy as np
import pytest
import tensorflow as tf

from tests.families import FAMILIES, keras, needs_keras3, wrapped

pytestmark = needs_keras3


def schedule():
    return keras.optimizers.schedules.InverseTimeDecay(0.25, 1, 0.5)


def variables(shapes):
    return [
        tf.Variable(np.ones(s, "float32"), name=f"v{i}") for i, s in enumerate(shapes)
    ]


def trained(shapes):
    """Return a plain Adam with a schedule after two steps, and its slots by their names."""
    optimizer, xs = FAMILIES["keras3"].Adam(schedule()), variables(shapes)
    for step in (1.0, 2.0):
        optimizer.apply_gradients(
            [(tf.fill(x.shape, step + number), x) for number, x in enumerate(xs)]
        )
    return optimizer, [np.array(v) for v in optimizer.variables]


def test_the_shapes_say_that_the_values_are_those_of_a_plain_optimizer():
    shapes = [(2, 2), (2,)]
    plain, values = trained(shapes)
    optimizer, xs = wrapped("keras3", "Adam", schedule()), variables(shapes)
    optimizer.build(xs)
    optimizer.set_weights(values)
    for number, x in enumerate(xs):
        expected = np.array(plain._momentums[number])
        np.testing.assert_array_equal(np.array(optimizer.get_slot(x, "m")), expected)


def test_values_that_may_be_of_keras_2_or_of_a_plain_optimizer_are_refused():
    """The first value of `v` would become a momentum, and the next step NaN."""
    shapes = [(2,), (2,)]
    _, values = trained(shapes)
    optimizer = wrapped("keras3", "Adam", schedule())
    with pytest.raises(ValueError, match="Build the optimizer first"):
        optimizer.set_weights(values)
    optimizer.build(variables(shapes))
    before = optimizer.get_weights()
    with pytest.raises(ValueError, match="whose orders differ"):
        optimizer.set_weights(values)
    for expected, actual in zip(before, optimizer.get_weights(), strict=True):
        np.testing.assert_array_equal(expected, actual)


def test_one_variable_has_one_order():
    _, values = trained([(2,)])
    optimizer = wrapped("keras3", "Adam", schedule())
    optimizer.build(variables([(2,)]))
    optimizer.set_weights(values)
    np.testing.assert_array_equal(optimizer.get_weights()[1], values[1])
