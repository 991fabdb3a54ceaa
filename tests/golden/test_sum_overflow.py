"""Gradients that are finite on each replica, but whose sum over the replicas overflows.

Until TensorFlow 2.4, each replica checked its gradients before the sum, so the infinite sum was
applied. Since TensorFlow 2.5, the optimizer checks the sum and skips the step.
"""

import ast
import re

import pytest
import tensorflow as tf

from tests import families
from tests.golden import harness

# The learning rate is so small that a finite step leaves the variable at 1. Only a step with
# an infinite gradient changes the variable.
TINY = 1e-30
GRADIENTS = (1.0, 3e38, 1.0)


def _rows(api, family, strategy):
    """Return [variable on each replica, loss scale, iterations] after each step."""
    with strategy.scope():
        variable = tf.Variable(1.0)
        optimizer = harness.wrap(api, families.FAMILIES[family].SGD(TINY))

    def apply(gradient):
        # Make a tensor for each replica. The same tensor on both replicas would not be summed.
        optimizer.apply_gradients([(tf.identity(gradient), variable)])

    @tf.function
    def step(gradient):
        strategy.run(apply, args=(gradient,))

    rows = []
    for gradient in GRADIENTS:
        step(tf.constant(gradient))
        copies = [float(value) for value in families.copies(variable)]
        scale = float(optimizer.loss_scale)
        rows.append([copies, scale, int(families.numpy(optimizer.iterations))])
    return rows


def _recorded_rows(since_2_5):
    def minor(version):
        return int(re.split(r"\W", version)[1])  # 5 of "2.5.3" or "2.5-tf_keras"

    return [
        [
            [ast.literal_eval(copies.replace("inf", "2e308")), scale, iterations]
            for copies, scale, iterations in probe["rows"]
        ]
        for probe in harness.record()["sum_overflow"]
        if (minor(probe["version"]) >= 5) == since_2_5
    ]


@pytest.mark.parametrize("family", ["legacy", "new"])
def test_reference(mirrored2, family):
    recorded = _recorded_rows(since_2_5=True)[-1]
    assert _rows("reference", family, mirrored2) == recorded


@pytest.mark.parametrize("family", families.FAMILIES)
def test_step_is_skipped_as_since_2_5(mirrored2, family):
    rows = _rows("stable", family, mirrored2)
    later, earlier = _recorded_rows(since_2_5=True), _recorded_rows(since_2_5=False)
    assert later == [rows] * 7
    assert len(earlier) == 5
    assert rows not in earlier
