"""Gradients that are finite on each replica, but whose sum over the replicas overflows.

Until TensorFlow 2.4, each replica checked its gradients before the sum, so the infinite sum was
applied. Since TensorFlow 2.5, the optimizer checks the sum and skips the step.
"""

import pytest
import tensorflow as tf

from tests import families
from tests.golden import harness

# The learning rate is so small that a finite step leaves the variable at 1. Only a step with
# an infinite gradient changes the variable.
LEARNING_RATE = 1e-30
# The gradient of each replica in three steps. The largest float32 is 3.4e38.
GRADIENTS = (1.0, 3e38, 1.0)


def _rows(family, strategy):
    """Return [variable on each replica, loss scale, iterations] after each step."""
    with strategy.scope():
        variable = tf.Variable(1.0)
        optimizer = harness.wrap("stable", families.FAMILIES[family].SGD(LEARNING_RATE))

    def apply(gradient):
        # Make a tensor for each replica. The same tensor on both replicas would not be summed.
        optimizer.apply_gradients([(tf.identity(gradient), variable)])

    @tf.function
    def step(gradient):
        strategy.run(apply, args=(gradient,))

    rows = []
    for gradient in GRADIENTS:
        step(tf.constant(gradient))
        copies = str([float(value) for value in families.copies(variable)])
        scale = float(optimizer.loss_scale)
        rows.append([copies, scale, int(families.numpy(optimizer.iterations))])
    return rows


@pytest.mark.parametrize("family", families.FAMILIES)
def test_step_is_skipped_as_since_2_5(mirrored2, family):
    rows = _rows(family, mirrored2)
    before_2_5 = {"2.0.4", "2.1.4", "2.2.3", "2.3.4", "2.4.4"}
    for recording in harness.record()["sum_overflow"]:
        version = recording["version"]
        assert (rows == recording["rows"]) == (version not in before_2_5), version
