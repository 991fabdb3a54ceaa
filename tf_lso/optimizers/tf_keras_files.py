"""What tf_keras's files hold of a wrapped tf_keras optimizer."""

import numpy as np
import tensorflow as tf

from tf_lso.optimizers import checks

# Variables that an optimizer of tf_keras has and does not list: of Nadam.
HIDDEN = ("_u_product",)


class Files:
    """The methods by which .keras and .weights.h5 files are saved and loaded.

    They hold the variables of the inner optimizer, as files of tf_keras do, then what
    tf_keras leaves out. tf_keras asks only optimizers of the newer kind; with
    `tf_lso.install()` it asks legacy ones too.
    """

    def save_own_variables(self, store):
        """Put all state into a mapping of "0", "1", ... to arrays."""
        for index, array in enumerate(self.get_weights()):
            store[str(index)] = array

    def load_own_variables(self, store):
        """Set all state from a file, now or once there are variables for it.

        Args:
          store: mapping of "0", "1", ... to arrays: what `save_own_variables` put there,
            or of files of tf_keras itself the inner optimizer's variables, which leave
            the loss scale as it is.

        Raises:
          ValueError: if the file's optimizer had other variables.
        """
        arrays = [np.array(store[str(index)]) for index in range(len(store.keys()))]
        if not arrays:
            return  # weights of a model that was not compiled
        if self._built_variables():
            self.set_weights(arrays)
        else:
            self._keep_until_built("set_weights", arrays)


class _Computed:
    """In place of the Python number by which Nadam knows whether its product is new.

    tf_keras's Nadam multiplies `_u_product` once a step: for the first variable, when
    this number is other than the step's number plus 2, and then it adds 1. As a Python
    number it is neither saved nor does it count within a function, and it is off for
    good after a skipped step. As a variable it holds the last step that has multiplied.
    """

    def __init__(self, optimizer):
        self._iterations = optimizer.iterations
        self._last = tf.Variable(0, trainable=False, dtype=tf.int64)

    def __iadd__(self, one):
        self._last.assign(self._iterations + 1 + one)
        return self

    def __eq__(self, step):
        return tf.equal(self._last, step)

    __hash__ = None


def count_in_variables(optimizer):
    """Make `optimizer`, if it is tf_keras's Nadam, keep its state in variables only."""
    if isinstance(getattr(optimizer, "_u_product_counter", None), int):
        with checks.scope_of(checks.strategy_of([optimizer._u_product])):
            optimizer.__dict__["_u_product_counter"] = _Computed(optimizer)
