"""Slot variables under the names of OptimizerV2.

The optimizers of Keras 3, and the newer ones of tf_keras, keep their variables in
lists with one entry per model variable.
"""

import tensorflow as tf

from tf_lso import optimizer_table as table

# TensorFlow takes an object that lists this method for an OptimizerV2 and saves slots in
# a way of its own; optimizers that keep lists save their lists.
HIDDEN_FROM_CHECKPOINTS = {"_hidden_from_dir": frozenset(("get_slot_names",))}


class ListedSlots:
    """The slot methods of OptimizerV2 for an optimizer that keeps lists.

    Programs call them on the wrapper, whose docstrings say what they do.

    Args:
      inner: the optimizer.
      known_variables: callable that returns {key: place in the lists} and a function,
        model variable -> key.
      new_slot: callable, (model variable, slot name, initializer) -> new variable.
    """

    def __init__(self, inner, known_variables, new_slot):
        self._inner, self._known, self._new_slot = inner, known_variables, new_slot
        self._added = {}  # slot name -> {place of a model variable: its added slot}

    def _slots(self):
        return {**table.slot_lists(self._inner), **self._added}

    def _place_of(self, var):
        known, key = self._known()
        return known[key(var)]

    def get_slot_names(self):
        """Return the names of the lists that are built, and of slots that were added."""
        return list(self._slots())

    def get_slot(self, var, slot_name):
        """Return a slot variable, or raise KeyError."""
        return self._slots()[slot_name][self._place_of(var)]

    def add_slot(self, var, slot_name, initializer="zeros", shape=None):
        """Return a slot variable of the shape of its model variable, made if it is new."""
        del shape
        try:
            return self.get_slot(var, slot_name)
        except KeyError:
            made = self._new_slot(var, slot_name, initializer)
            self._added.setdefault(slot_name, {})[self._place_of(var)] = made
            return made

    def add_weight(self, name, shape=(), dtype=None, initializer="zeros", **kwargs):
        """Return a new variable of the inner optimizer."""
        del kwargs  # further arguments of TensorFlow 2.0-2.15
        dtype = None if dtype is None else tf.as_dtype(dtype).name
        return self._inner.add_variable(
            shape=tuple(shape), initializer=initializer, dtype=dtype, name=name
        )
