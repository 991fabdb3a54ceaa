"""Gradients that are finite on each replica and overflow only in their sum.

Until 2.4 every replica looked at its own gradients, and the infinite sum was applied.
From 2.5 on the sum is looked at, and the step skipped.
"""

import ast
import re

import pytest
import tensorflow as tf

from tests import families
from tests.golden import harness

# The step is so small that a finite one leaves the variable at 1, and only 0 times
# infinity, or infinity itself, changes it.
TINY = 1e-30
GRADIENTS = (1.0, 3e38, 1.0)


def _rows(wrap, family, strategy):
    """(variable on each replica, scale, iterations) after each step."""
    with strategy.scope():
        variable = tf.Variable(1.0)
        optimizer = wrap(families.FAMILIES[family].SGD(TINY))

    @tf.function
    def step(gradient):
        strategy.run(lambda g: _apply(optimizer, g, variable), args=(gradient,))

    rows = []
    for gradient in GRADIENTS:
        step(tf.constant(gradient))
        copies = [float(value) for value in families.copies(variable)]
        scale = float(optimizer.loss_scale)
        rows.append([copies, scale, int(families.numpy(optimizer.iterations))])
    return rows


def _apply(optimizer, gradient, variable):
    # A tensor of each replica's own: one object on both would not be summed.
    optimizer.apply_gradients([(tf.identity(gradient), variable)])


def _recorded(rows):
    return [
        [ast.literal_eval(copies.replace("inf", "2e308")), scale, iterations]
        for copies, scale, iterations in rows
    ]


def _minor(version):
    """5 of a version such as "2.5.3" or "2.5-tf_keras"."""
    return int(re.split(r"\W", version)[1])


def _recorded_rows(since_2_5):
    return [
        _recorded(probe["rows"])
        for probe in harness.record()["sum_overflow"]
        if (_minor(probe["version"]) >= 5) == since_2_5
    ]


@pytest.mark.parametrize("family", ["legacy", "new"])
def test_reference(mirrored2, family):
    rows = _rows(harness.reference, family, mirrored2)
    assert rows == _recorded_rows(since_2_5=True)[-1]


@pytest.mark.parametrize("family", families.FAMILIES)
def test_step_is_skipped_as_since_2_5(mirrored2, family):
    rows = _rows(harness.ours, family, mirrored2)
    later, earlier = _recorded_rows(since_2_5=True), _recorded_rows(since_2_5=False)
    assert len(later) == 7
    assert len(earlier) == 5
    assert all(rows == recorded for recorded in later)
    assert not any(rows == recorded for recorded in earlier)
