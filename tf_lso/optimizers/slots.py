"""Find slot variables by the names that OptimizerV2 gave them.

The optimizers of Keras 3, and the newer optimizers of Keras 2, keep slots in lists. Each
list has one entry for each model variable.
"""

import contextlib

import tensorflow as tf

from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import tf_private

# If `dir(optimizer)` lists this method, TensorFlow takes the optimizer for an OptimizerV2 and
# saves its slots one by one. Optimizers that keep lists must save these lists instead.
HIDDEN_FROM_CHECKPOINTS = {"_hidden_from_dir": frozenset(("get_slot_names",))}


def too_many(optimizer):
    """Return the message for a checkpoint with more state than the optimizer has."""
    name = type(optimizer).__name__
    lacking = table.optional_slots(optimizer) - table.slots_made(optimizer)
    arguments = [f"{a}={v}" for s, (a, v) in table.MADE_BY.items() if s in lacking]
    examples = " or ".join(f"{name}(..., {argument})" for argument in arguments)
    advice = f", such as {examples}" if examples else ""
    return (
        f"The checkpoint has more variables of the optimizer than this {name} takes. Make "
        f"it with the arguments of the one that was saved{advice}, for the same model "
        "variables."
    )


def refuse_more(listed, family):
    """Refuse a checkpoint with too many variables, because TensorFlow would drop some."""

    def refusing(lookup, name, *cached):
        found = lookup(name, *cached)
        # TensorFlow also looks up the next number when a variable is added to the list. In a
        # restore it passes the variables of the list as well, except in TensorFlow 2.12.
        more = name.isdigit() and (cached or int(name) > len(listed))
        if found is None and more and family.built_variables():
            raise ValueError(too_many(family.inner))
        return found

    tf_private.replace_lookup(listed, refusing)


class ListedSlots:
    """The slot methods of OptimizerV2 for an optimizer that keeps lists.

    Programs call these methods on the wrapper. Its class has their full docstrings.

    Args:
      family: the adapter of the optimizer.
      own_variables: list of all variables of the optimizer. Checkpoints contain it element
        by element. A checkpoint that contains more elements is refused.
    """

    def __init__(self, family, own_variables):
        self._family, self._inner = family, family.inner
        self._added = {}  # slot name -> {index of a model variable: its added slot}
        self._listed = own_variables
        # Checkpoints of Keras 3.0 do not contain the list.
        self._is_saved = isinstance(own_variables, tf_private.trackable())
        if self._is_saved:
            refuse_more(self._listed, family)

    @contextlib.contextmanager
    def being_built(self):
        """Return a context in which the slots are built, and at whose end they are restored.

        Some optimizers assign values to their slots while they are built. These values must
        not replace those of a checkpoint, so the checkpoint's values are restored last.

        Raises:
          ValueError: if the checkpoint has more variables than were built.
        """
        if not self._is_saved:
            yield
            return
        later = tf_private.restored_afterwards
        # The values of a checkpoint wait under the indices of the list, and under the names of
        # the attributes of the optimizer.
        with later(self._listed) as places, later(self._inner):
            yield
            if any(p.isdigit() and int(p) >= len(self._listed) for p in places):
                raise ValueError(too_many(self._inner))

    def wait(self):
        """Return whether TensorFlow keeps values of a checkpoint for slots to be made later."""
        waiting = tf_private.deferred(self._listed) if self._is_saved else ()
        return any(name.isdigit() for name in waiting)

    def _slots(self):
        return {**table.slot_lists(self._inner), **self._added}

    def _place_of(self, var):
        known, key = self._family.known_variables()
        return known[key(var)]

    def get_slot_names(self):
        """Return the names of the lists that exist, and of slots that were added."""
        return list(self._slots())

    def get_slot(self, var, slot_name):
        """Return a slot variable, or raise KeyError."""
        return self._slots()[slot_name][self._place_of(var)]

    def add_slot(self, var, slot_name, initializer="zeros", shape=None):
        """Return a slot variable, which is made if it does not exist.

        The slot has the shape of its model variable. The argument `shape` is ignored.
        """
        del shape
        try:
            return self.get_slot(var, slot_name)
        except KeyError:
            made = self._family.new_slot(var, slot_name, initializer)
            self._added.setdefault(slot_name, {})[self._place_of(var)] = made
            return made

    def add_weight(self, name, shape=(), dtype=None, initializer="zeros", **kwargs):
        """Return a new variable of the inner optimizer."""
        del kwargs  # TensorFlow 2.0-2.15 had more arguments
        dtype = None if dtype is None else tf.as_dtype(dtype).name
        return self._inner.add_variable(
            shape=tuple(shape), initializer=initializer, dtype=dtype, name=name
        )
