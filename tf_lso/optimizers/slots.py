"""Slot variables under the names of OptimizerV2.

The optimizers of Keras 3, and the newer ones of tf_keras, keep their variables in
lists with one entry per model variable.
"""

import abc

import tensorflow as tf

from tf_lso.optimizers import table


def table_of(optimizer):
    """Return {slot name: attribute} of the class of `optimizer`, nearest to it."""
    names = [cls.__name__ for cls in type(optimizer).__mro__]
    return table.of(names).slots | table.AVERAGE


def slot_lists(optimizer):
    """Return {slot name: list of variables} of what `optimizer` has built."""
    lists = {}
    for slot, names in table_of(optimizer).items():
        for name in names.split("|"):
            variables = getattr(optimizer, name, None)
            if variables:
                lists[slot] = variables
    return lists


def by_slot(optimizer, variables):
    """Return `variables` with the slots of `optimizer` last, and slot by slot.

    That is the order of OptimizerV2's weights, which for Adam were m of all variables
    and then v of all; the lists hold m and v of one variable side by side.
    """
    in_order = [v for listed in slot_lists(optimizer).values() for v in listed]
    position = {id(variable): number for number, variable in enumerate(in_order, 1)}
    return sorted(variables, key=lambda variable: position.get(id(variable), 0))


# TensorFlow takes an object that lists this method for an OptimizerV2 and saves slots in
# a way of its own; optimizers that keep lists save their lists.
HIDDEN_FROM_CHECKPOINTS = {"_hidden_from_dir": frozenset(("get_slot_names",))}


class ListedSlots(abc.ABC):
    """The slot methods of OptimizerV2 for optimizers that keep lists.

    Programs call them on the wrapper, whose docstrings say what they do. The adapter to a
    family adds the two abstract methods.
    """

    def __init__(self, inner):
        super().__init__(inner)
        self._added = {}  # slot name -> {place of a model variable: its added slot}

    @abc.abstractmethod
    def known_variables(self):
        """Return {key: place in the lists} and the function, model variable -> key."""

    @abc.abstractmethod
    def new_slot(self, var, slot_name, initializer):
        """Return a new variable of the inner optimizer for a model variable."""

    def _place_of(self, var):
        known, key = self.known_variables()
        return known[key(var)]

    def get_slot_names(self):
        """Return the names of the lists that are built, and of slots that were added."""
        return list({**slot_lists(self.inner), **self._added})

    def get_slot(self, var, slot_name):
        """Return a slot variable, or raise KeyError."""
        place = self._place_of(var)
        added = self._added.get(slot_name, {})
        if place in added:
            return added[place]
        return slot_lists(self.inner)[slot_name][place]

    def add_slot(self, var, slot_name, initializer="zeros", shape=None):
        """Return a slot variable, made if it does not exist."""
        del shape  # a slot has its variable's shape
        try:
            return self.get_slot(var, slot_name)
        except KeyError:
            made = self.new_slot(var, slot_name, initializer)
            self._added.setdefault(slot_name, {})[self._place_of(var)] = made
            return made

    def add_weight(self, name, shape=(), dtype=None, initializer="zeros", **kwargs):
        """Return a new variable of the inner optimizer."""
        del kwargs  # further arguments of TensorFlow 2.0-2.15
        dtype = None if dtype is None else tf.as_dtype(dtype).name
        return self.inner.add_variable(
            shape=tuple(shape), initializer=initializer, dtype=dtype, name=name
        )
