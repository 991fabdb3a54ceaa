"""Wrapping changes in an optimizer what the table of changes lists, and nothing else."""

import re

import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    FAMILIES,
    OLD_KERAS3,
    keras,
    keras2,
    needs_keras3,
    number,
)
from tf_lso.frameworks import keras3_private
from tf_lso.install import table

# The names in the rows of the table for changes that wrapping makes.
NAMES_IN_ROWS = {
    name
    for row in table.PATCHES
    if row.when == table.WRAPPED
    for name in re.findall(r"`(\w+)`", row.target)
}


@pytest.mark.parametrize("family", FAMILIES)
def test_wrapping_changes_only_attributes_that_the_rows_name(family):
    inner = FAMILIES[family].SGD(0.1, momentum=0.5)
    before = dict(vars(inner))
    tf_lso.LossScaleOptimizer(inner)
    after = vars(inner)
    changed = {
        name
        for name in before.keys() | after.keys()
        # TensorFlow itself sets attributes with this prefix to track what checkpoints contain.
        if before.get(name) is not after.get(name) and not name.startswith("_self_")
    }
    assert "_is_wrapped_by_loss_scale_optimizer" in changed
    assert changed <= NAMES_IN_ROWS


@needs_keras3
def test_outside_a_step_of_the_wrapper_the_methods_do_what_keras_does(monkeypatch):
    inner, called = keras.optimizers.SGD(0.5), []

    def record_calls(owner, name):
        function = getattr(owner, name)

        def recorded(*args):
            called.append(name)
            return function(*args)

        monkeypatch.setattr(owner, name, recorded)

    methods = ["assign" if OLD_KERAS3 else "assign_add"]  # count the steps
    record_calls(inner.iterations, methods[0])
    if keras3_private.aggregates():
        methods.append("_all_reduce_sum_gradients")
        record_calls(type(inner), "_all_reduce_sum_gradients")
    optimizer = tf_lso.LossScaleOptimizer(inner)
    x = tf.Variable(2.0)
    optimizer.apply_gradients([(tf.constant(1.0), x)])
    assert called == [] and float(x) == 1.5
    inner.apply_gradients([(tf.constant(1.0), x)])
    assert sorted(called) == sorted(methods) and float(x) == 1.0
    assert number(inner.iterations) == 2


@needs_keras3
def test_outside_a_step_keras_refuses_a_part_without_gradients():
    """The part stands for an optimizer in a MultiOptimizer."""
    part = keras.optimizers.SGD(0.5)
    x = keras.Variable(2.0)
    part.build([x])
    keras3_private.tolerate_no_gradients(part)
    with keras3_private.already_summed():
        part.apply([None], [x])
    with pytest.raises(ValueError, match="No gradients"):
        part.apply([None], [x])


def test_a_wrapped_optimizer_stays_wrapped_after_uninstall():
    inner = keras2.optimizers.SGD(0.1)
    with tf_lso.install():
        optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=8)
    x = tf.Variable(2.0)
    optimizer.minimize(lambda: x * 2.0, [x])
    assert float(x) == pytest.approx(1.8)
    with pytest.raises(ValueError, match="already wrapped"):
        tf_lso.LossScaleOptimizer(inner)
