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

ROWS = [row for row in table.PATCHES if row.when == table.WRAPPED]
NAMED = {name for row in ROWS for name in re.findall(r"`(\w+)`", row.target)}


def functions_in(owner):
    """Return the names of the listed methods that an object has in place of its class's own."""
    return {n for n, value in vars(owner).items() if callable(value) and n in NAMED}


def changed(before, after):
    return {
        n for n in before.keys() | after.keys() if before.get(n) is not after.get(n)
    }


def test_each_row_says_what_and_why():
    assert len(ROWS) == 7
    assert all(row.why for row in ROWS)


@pytest.mark.parametrize("family", FAMILIES)
def test_wrapping_changes_what_the_rows_name(family):
    inner = FAMILIES[family].SGD(0.1, momentum=0.5)
    before = dict(vars(inner))
    tf_lso.LossScaleOptimizer(inner)
    found = changed(before, dict(vars(inner)))
    # TensorFlow itself sets attributes with this prefix to track the contents of checkpoints.
    named = {name for name in found if not name.startswith("_self_")}
    assert "_is_wrapped_by_loss_scale_optimizer" in named
    assert named <= NAMED


@needs_keras3
def test_the_step_counter_has_its_changes():
    inner = keras.optimizers.SGD(0.1)
    tf_lso.LossScaleOptimizer(inner)
    sums = {"_all_reduce_sum_gradients"} if keras3_private.aggregates() else set()
    assert functions_in(inner) == sums
    assert functions_in(inner.iterations) == {"assign", "assign_add"}


@needs_keras3
def test_outside_a_step_of_the_wrapper_they_do_what_keras_does(monkeypatch):
    inner, called = keras.optimizers.SGD(0.5), []

    def note(owner, name, what):
        function = getattr(owner, name)

        def noted(*args):
            called.append(what)
            return function(*args)

        monkeypatch.setattr(owner, name, noted)

    sums = ["sum"] if keras3_private.aggregates() else []
    for what in sums:
        note(type(inner), "_all_reduce_sum_gradients", what)
    # Keras 3.0 counts a step by `assign`.
    note(inner.iterations, "assign" if OLD_KERAS3 else "assign_add", "count")
    optimizer = tf_lso.LossScaleOptimizer(inner)
    x = tf.Variable(2.0)
    optimizer.apply_gradients([(tf.constant(1.0), x)])
    assert called == [] and float(x) == 1.5
    inner.apply_gradients([(tf.constant(1.0), x)])
    assert sorted(called) == ["count", *sums] and float(x) == 1.0
    assert number(inner.iterations) == 2


@needs_keras3
def test_a_part_without_gradients_is_refused_by_keras_outside_a_step():
    part = keras.optimizers.SGD(0.5)
    x = keras.Variable(2.0)
    part.build([x])
    keras3_private.tolerate_no_gradients(part)
    with keras3_private.already_summed():
        part.apply([None], [x])
    with pytest.raises(ValueError, match="No gradients"):
        part.apply([None], [x])


def test_uninstall_leaves_them():
    inner = keras2.optimizers.SGD(0.1)
    with tf_lso.install():
        optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=8)
    x = tf.Variable(2.0)
    optimizer.minimize(lambda: x * 2.0, [x])
    assert float(x) == pytest.approx(1.8)
    with pytest.raises(ValueError, match="already wrapped"):
        tf_lso.LossScaleOptimizer(inner)
