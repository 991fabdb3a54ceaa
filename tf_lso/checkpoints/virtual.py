"""Models without memory: their variables have shapes and no values.

Keras saves such a model to a small file, in which each value is a number that says which
variable it stands for. That is a template of the file that it would have written, in the
layout of the Keras that is installed, and through its public functions; the values are
filled in one after the other.
"""

import threading

import keras
import tensorflow as tf

# Numbers from here on stand for a variable. No step counter gets there.
_FIRST = 1 << 52


class Scope(keras.StatelessScope):
    """Makes the Keras variables that are created in it without memory."""

    def __init__(self):
        try:
            super().__init__(initialize_variables=False)
        except TypeError:  # Keras 3.0 initializes them at the end, in memory
            super().__init__()
        self._stand_ins = {}

    def get_current_value(self, variable):
        """Return what stands in for the value, which optimizers ask for its identity."""
        value = super().get_current_value(variable)
        if value is not None or not variable.shape:
            return value
        if id(variable) not in self._stand_ins:
            self._stand_ins[id(variable)] = tf.Variable(0, dtype=tf.int64)
        return self._stand_ins[id(variable)]


def settle(variables, planned):
    """Give each variable a value: a number for those planned, and to others their own.

    Private: a Keras variable has no public way to hold a value of another shape.
    TestPrivate of tests/checkpoints/test_virtual.py fails clearly if it moves.

    Args:
      variables: list of Keras variables.
      planned: dict of id of a variable and anything.

    Returns:
      dict of number and what `planned` has for the variable.
    """
    numbers = {}
    for variable in variables:
        if not isinstance(variable, keras.Variable):
            continue
        if id(variable) in planned and variable.shape:
            number = _FIRST + len(numbers)
            numbers[number] = planned[id(variable)]
            variable._value = tf.Variable(number, dtype=tf.int64)
        elif variable._value is None:
            variable._value = tf.Variable(variable.value)
    return numbers


def in_own_thread(function):
    """Return what `function` returns, run in a thread of its own.

    Keras remembers, for each thread, variables that it would initialize later.
    """
    result = []

    def run():
        try:
            result.append((function(), None))
        except BaseException as error:
            result.append((None, error))

    thread = threading.Thread(target=run, name="tf_lso convert")
    thread.start()
    thread.join()
    value, error = result[0]
    if error is not None:
        raise error
    return value
