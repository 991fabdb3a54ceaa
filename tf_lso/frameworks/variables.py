"""Functions for names, values, copies and strategies of TensorFlow and Keras variables."""

import contextlib
import threading

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import graphs, keras_versions, tf_private

# A thread holds this lock while it creates variables of an optimizer, because two threads may
# run their first step at the same time.
building = threading.RLock()


class CallableList(list):
    """A list that can also be called: `variables` was a method in TensorFlow 2.0-2.10."""

    def __call__(self):
        """Return this list."""
        return self


def raw(variable):
    """Return a Keras 3 variable's TensorFlow variable. Return other variables unchanged."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value


def with_gradients(loss, var_list, grad_loss, tape):
    """Compute gradients of a loss and return (gradient, variable) pairs.

    `loss` and `var_list` may also be functions, which return the loss and the variables.
    """
    if callable(loss):
        with tape:
            if not callable(var_list):
                tape.watch([raw(v) for v in tf.nest.flatten(var_list)])
            loss = loss()
    variables = tf.nest.flatten(var_list() if callable(var_list) else var_list)
    gradients = tape.gradient(loss, [raw(v) for v in variables], grad_loss)
    return list(zip(gradients, variables))


def numpy(variable):
    """Return the value that a variable has on the first local replica, as an array."""
    copy = copies(variable)[0]
    in_graph = graphs.in_graph_of_tensorflow_1()
    return _session_of_keras().get_value(copy) if in_graph else copy.numpy()


def _session_of_keras():
    """Return Keras 2's `backend` module, which reads and writes variables in sessions."""
    return keras_versions.public(keras_versions.imported_keras2()[-1]).backend


def copies(variable):
    """Return a list of a variable's copies: one TensorFlow variable per local replica."""
    return list(getattr(raw(variable), "values", [raw(variable)]))


def name_of(variable):
    """Return a name of `variable` for messages: its path, its name, or its repr."""
    path = getattr(variable, "path", None)
    return path or getattr(variable, "name", None) or repr(variable)


def array_for(variable, array):
    """Return `array` for `variable`. Raise TypeError or ValueError if it does not fit."""
    array = np.asarray(array)
    what, shape = f"The array for {name_of(variable)} in 'weights'", variable.shape
    if array.dtype.kind in "OSU":
        raise TypeError(f"{what} must hold numbers, but got {array!r}.")
    if array.shape != tuple(shape):
        raise ValueError(f"{what} has the shape {array.shape}, but needs {shape}.")
    return array


def assign_all(variables, arrays):
    """Assign arrays to variables. If `array_for` raises an error, assign no array."""
    arrays = [array_for(v, array) for v, array in zip(variables, arrays)]
    # An assignment to each replica's copy also works in the thread of a replica.
    pairs = [(c, array) for v, array in zip(variables, arrays) for c in copies(v)]
    if graphs.in_graph_of_tensorflow_1():
        _session_of_keras().batch_set_value(pairs)
        return
    for copy, array in pairs:
        copy.assign(tf.cast(array, copy.dtype))


class SecondName(tf_private.trackable()):  # type: ignore[misc]
    """Lets a checkpoint save a variable a second time, under a second name.

    TensorFlow saves each object only once, even if the object has two names.
    """

    def __init__(self, variable):
        self._variable = variable

    def _serialize_to_tensors(self):
        return {"VARIABLE_VALUE": copies(self._variable)[0].read_value()}

    def _restore_from_tensors(self, restored_tensors):
        value = restored_tensors["VARIABLE_VALUE"]
        return [copy.assign(value) for copy in copies(self._variable)]


class NotSaved(tf_private.trackable()):  # type: ignore[misc]
    """Makes TensorFlow refuse to save a checkpoint that contains this object."""

    def __init__(self, message):
        self._message = message

    def _serialize_to_tensors(self):
        raise ValueError(self._message)


def strategy_of(variables):
    """Return the strategy under which variables were created, or the current strategy."""
    found = (tf_private.strategy_of(raw(v)) for v in variables)
    return next((s for s in found if s is not None), tf.distribute.get_strategy())


def scope_of(strategy):
    """Return a strategy's scope, or a null context if the strategy is already current."""
    if strategy is tf.distribute.get_strategy():
        return contextlib.nullcontext()
    return strategy.scope()


def set_untracked(owner, name, value):
    """Set an attribute that must not become a dependency or a hyperparameter."""
    object.__setattr__(owner, name, value)
