"""The private parts of Keras 3 that tf_lso uses: these tests fail if Keras moves one."""

import inspect

import keras
import pytest
import tensorflow as tf

from tests.families import numpy, raw
from tf_lso.optimizers.faces import keras3


@pytest.fixture
def optimizer():
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build([tf.Variable(1.0, name="x")])
    return optimizer


def test_the_step_counter(optimizer):
    """`_iterations` (or `iterations` in Keras 3.0) is a variable that steps advance."""
    counter = keras3._iteration_variable(optimizer)
    assert isinstance(raw(counter), tf.Variable)
    optimizer.apply([tf.constant(1.0)])
    assert numpy(counter) == 1


def test_keras_advances_the_counter_by_a_method_of_it(optimizer):
    """`_count_steps_once` replaces `assign_add`, and `assign` for Keras 3.0."""
    calls = []
    counter = keras3._iteration_variable(optimizer)
    counter.__dict__["assign_add"] = calls.append
    counter.__dict__["assign"] = calls.append
    optimizer.apply([tf.constant(1.0)])
    (value,) = calls
    assert int(value) == 1


def test_the_sum_over_replicas_is_one_method(optimizer):
    """`sum_gradients_only_once` replaces `_all_reduce_sum_gradients`."""
    if not hasattr(optimizer, "_all_reduce_sum_gradients"):
        source = inspect.getsource(
            inspect.getmodule(keras.optimizers.Optimizer.__mro__[1])
        )
        assert "all_reduce" not in source, "Keras sums somewhere else now"
        return
    calls = []

    def record(grads_and_vars):
        calls.append(len(list(grads_and_vars)))
        return grads_and_vars

    optimizer.__dict__["_all_reduce_sum_gradients"] = record
    optimizer.apply([tf.constant(1.0)])
    assert calls == [1]


def test_the_strategy_attribute(optimizer):
    """`_build_under` sets it."""
    assert optimizer._distribution_strategy is tf.distribute.get_strategy()


def test_the_index_of_known_variables(optimizer):
    known, key = keras3._known_variables(optimizer)
    assert list(known.values()) == [0]
    assert key(tf.Variable(1.0)) not in known


def test_the_built_variables(optimizer):
    assert len(optimizer._trainable_variables) == 1
