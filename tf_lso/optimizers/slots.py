"""Provide the slot methods of OptimizerV2 for optimizers of other families.

The optimizers of Keras 3, and the newer optimizers of Keras 2, keep slots in lists. Each
list has one entry for each model variable. Programs find a slot by the name that
OptimizerV2 gave to the slot.
"""

import contextlib

import tensorflow as tf

from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import tf_private

# If `dir(optimizer)` contains "get_slot_names", TensorFlow saves the slots of the optimizer
# one by one. If an optimizer keeps its slots in lists, TensorFlow must save the lists
# instead. So the wrapper of such an optimizer hides the name from `dir`.
HIDDEN_FROM_CHECKPOINTS = {"_hidden_from_dir": frozenset(("get_slot_names",))}


def too_many(optimizer):
    """Return the error message for a checkpoint that has too many optimizer variables."""
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
    """Make TensorFlow refuse checkpoints with more variables than the optimizer has.

    By default TensorFlow silently ignores the surplus variables of the checkpoint.

    Args:
      listed: the list in which an optimizer keeps all its variables.
      family: the adapter of the optimizer.
    """

    def refusing(lookup, name, *cached):
        found = lookup(name, *cached)
        # TensorFlow calls this function to find the element of `listed` whose index is the str
        # `name`. TensorFlow does so during a restore, and also when a variable is added to
        # `listed`. Only a restore may raise the error. When a variable is added, `cached` is
        # empty and `name` is the length of `listed`. During a restore, `cached` is not empty.
        # TensorFlow 2.12 never passes `cached`, so in that version only a `name` greater than
        # the length of `listed` shows a restore.
        more = name.isdigit() and (cached or int(name) > len(listed))
        if found is None and more and family.built_variables():
            raise ValueError(too_many(family.inner))
        return found

    tf_private.replace_lookup(listed, refusing)


class ListedSlots:
    """The slot methods of OptimizerV2 for an optimizer that keeps its slots in lists.

    Programs call these methods on the wrapper. The full docstrings of the methods are in
    `LossScaleOptimizer`.

    Args:
      family: the adapter of the optimizer.
      own_variables: list of all variables of the optimizer. Checkpoints contain this list
        element by element. A checkpoint with more elements is refused.
    """

    def __init__(self, family, own_variables):
        self._family, self._inner = family, family.inner
        # `_added` contains the slots that a program has made with `add_slot`. It maps the name
        # of each slot to a dict, and this dict maps the index of a model variable to the slot
        # variable.
        self._added = {}
        self._listed = own_variables
        # In Keras 3.0 the list of variables is not a trackable object, so checkpoints do not
        # contain the list.
        self._is_saved = isinstance(own_variables, tf_private.trackable())
        if self._is_saved:
            refuse_more(self._listed, family)

    @contextlib.contextmanager
    def being_built(self):
        """Return a context manager in which the caller builds the inner optimizer.

        Some optimizers assign values to their slots during the build. These values must not
        replace the values of a checkpoint that was restored earlier. So the context manager
        assigns the values of the checkpoint after the build.

        Raises:
          ValueError: if the checkpoint has more variables than the optimizer has built.
        """
        if not self._is_saved:
            yield
            return
        later = tf_private.restored_afterwards
        # Until the variables exist, TensorFlow stores the values of the checkpoint in two
        # dicts. One dict belongs to the list of variables and has indices as keys. The second
        # dict belongs to the optimizer and has names of attributes as keys.
        with later(self._listed) as places, later(self._inner):
            yield
            if any(p.isdigit() and int(p) >= len(self._listed) for p in places):
                raise ValueError(too_many(self._inner))

    def wait(self):
        """Return whether TensorFlow holds restored values for slots that do not exist yet.

        TensorFlow assigns these values when the slots are created.
        """
        waiting = tf_private.deferred(self._listed) if self._is_saved else ()
        return any(name.isdigit() for name in waiting)

    def _slots(self):
        return {**table.slot_lists(self._inner), **self._added}

    def _place_of(self, var):
        known, key = self._family.known_variables()
        return known[key(var)]

    def get_slot_names(self):
        """Return the names of the slots that the optimizer has built or that were added."""
        return list(self._slots())

    def get_slot(self, var, slot_name):
        """Return the slot variable of a model variable.

        Raises:
          KeyError: if the model variable has no slot with the name `slot_name`.
        """
        return self._slots()[slot_name][self._place_of(var)]

    def add_slot(self, var, slot_name, initializer="zeros", shape=None):
        """Return a model variable's slot variable. Make the slot if it does not exist.

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
        # Ignore the further arguments that `add_weight` of TensorFlow 2.0-2.15 accepted.
        del kwargs
        dtype = None if dtype is None else tf.as_dtype(dtype).name
        return self._inner.add_variable(
            shape=tuple(shape), initializer=initializer, dtype=dtype, name=name
        )
