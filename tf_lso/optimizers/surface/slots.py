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


class ListedSlots:
    """The slot methods of OptimizerV2 for optimizers that keep lists.

    A face adds the two abstract methods.
    """

    @abc.abstractmethod
    def _known_variables(self):
        """Return {key: place in the lists} and the function, model variable -> key."""

    @abc.abstractmethod
    def _new_slot(self, var, slot_name, initializer):
        """Return a new variable of the inner optimizer for a model variable."""

    def _slot_index(self, var):
        known, key = self._known_variables()
        return known[key(var)]

    def get_slot_names(self):
        """Return the slot names that the inner optimizer has built, a list of str."""
        return list({**slot_lists(self.inner_optimizer), **self._extra_slots()})

    def get_slot(self, var, slot_name):
        """Return the slot variable of a model variable.

        Args:
          var: a model variable.
          slot_name: str, for instance "momentum" or "m".

        Raises:
          KeyError: if there is none.
        """
        index = self._slot_index(var)
        extra = self._extra_slots().get(slot_name, {})
        return (
            extra[index]
            if index in extra
            else slot_lists(self.inner_optimizer)[slot_name][index]
        )

    def add_slot(self, var, slot_name, initializer="zeros", shape=None):
        """Return the slot variable of a model variable, made if it does not exist.

        Args:
          var: a model variable.
          slot_name: str.
          initializer: an initializer or its name.
          shape: ignored; a slot has its variable's shape.
        """
        del shape
        try:
            return self.get_slot(var, slot_name)
        except KeyError:
            variable = self._new_slot(var, slot_name, initializer)
            self._extra_slots().setdefault(slot_name, {})[self._slot_index(var)] = (
                variable
            )
            return variable

    def add_weight(self, name, shape=(), dtype=None, initializer="zeros", **kwargs):
        """Return a new variable of the inner optimizer.

        Args:
          name: str.
          shape: tuple of int.
          dtype: dtype, defaults to float32.
          initializer: an initializer of its Keras or the name of one.
          **kwargs: further arguments of TensorFlow 2.0-2.15, which are ignored.
        """
        del kwargs
        dtype = None if dtype is None else tf.as_dtype(dtype).name
        return self.inner_optimizer.add_variable(
            shape=tuple(shape), initializer=initializer, dtype=dtype, name=name
        )

    def __dir__(self):
        # tf.train.Checkpoint takes an object that lists this method for an OptimizerV2
        # and saves slots in a way of its own; these optimizers save their lists.
        return [name for name in super().__dir__() if name != "get_slot_names"]

    def _extra_slots(self):
        return self.__dict__.setdefault("_added_slots", {})
