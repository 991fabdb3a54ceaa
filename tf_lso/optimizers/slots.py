"""Provide the slot methods of OptimizerV2 for optimizers of other families.

The optimizers of Keras 3, and the newer optimizers of Keras 2, keep slots in lists. Each
list has one entry for each model variable. Programs find a slot by the name that it has in
OptimizerV2.
"""

import contextlib

import tensorflow as tf

from tf_lso.frameworks import hyperparameters, tf_private
from tf_lso.frameworks import optimizer_table as table
from tf_lso.optimizers import manifest_comparison

# If `dir(optimizer)` contains "get_slot_names", TensorFlow saves each slot by itself, under the
# name of its model variable. But an optimizer that keeps its slots in lists must be saved by
# these lists.
HIDDEN_FROM_CHECKPOINTS = {"_hidden_from_dir": frozenset(("get_slot_names",))}


def too_many(optimizer):
    """Return the error message for a checkpoint that has too many optimizer variables."""
    name = type(optimizer).__name__
    lacking = table.optional_slots(optimizer) - table.slots_made(optimizer)
    arguments = [f"{a}={v}" for s, (a, v) in table.MADE_BY.items() if s in lacking]
    if not hasattr(hyperparameters.rate_or_schedule(optimizer), "assign"):
        # Keras 3 makes a variable for a constant learning rate, but not for a schedule.
        arguments.insert(0, "learning_rate=0.001")
    examples = " or ".join(f"{name}(..., {argument})" for argument in arguments)
    advice = f", such as {examples}" if examples else ""
    return (
        f"The checkpoint has more variables of the optimizer than this {name} has. Create "
        f"it with the arguments of the one that was saved{advice}, for the same model "
        "variables, or call tf_lso.checkpoints.restore(path, model=model, "
        "optimizer=optimizer)."
    )


class ListedSlots:
    """The slot methods of OptimizerV2 for an optimizer that keeps its slots in lists.

    The full docstrings of these methods are in `LossScaleOptimizer`.

    Checkpoints contain `own_variables`, the list of all variables of the optimizer, element
    by element. A checkpoint with more elements is refused.
    """

    def __init__(self, family, own_variables):
        self._family, self._inner = family, family.inner
        # The slots from `add_slot`, as {slot name: {index of the model variable: slot}}.
        self.added = {}
        self._listed = own_variables
        # The manifest of a checkpoint that was restored before the build, or None, and a dict
        # that maps indices in the list of the restored checkpoint to others in this list.
        self._expected = None, {}
        # In Keras 3.0 the list is not trackable, so checkpoints do not contain it.
        self._is_saved = isinstance(own_variables, tf_private.trackable())

    def restore_by_path(self):
        """Make TensorFlow restore each slot once, by the path of its model variable.

        By default TensorFlow restores a list of variables by their positions, and silently
        ignores surplus variables of the checkpoint. It also restores model variables through
        the optimizer, which lists them.
        """

        def in_optimizer(lookup, name, *cached):
            return self.restored_once(name, lookup(name, *cached))

        if self._is_saved:
            tf_private.replace_lookup(self._listed, self.variable_at)
            tf_private.replace_lookup(self._inner, in_optimizer)

    def forget(self):
        """Forget the checkpoint that was restored last. See `Family.forget`."""
        forgotten, self._expected = self._expected, (None, {})

        def remember():
            self._expected = forgotten

        return remember

    def expect(self, saved, own):
        """Prepare for the restore of a checkpoint. See `Family.expect`."""
        if not own.is_built:
            # The values of an earlier checkpoint would stay where this one has fewer.
            if self._is_saved:
                tf_private.deferred(self._listed).clear()
            self._expected = saved, {}
            return
        places = manifest_comparison.places(saved, own)
        start = len(own.heads)
        moved = {p: i for i, p in enumerate(places) if p != i}
        self._expected = None, {start + p: start + i for p, i in moved.items()}

    def restored_once(self, name, found):
        """Return `found`, the dependency `name`, and keep it from restoring a variable twice.

        The list of all variables restores the slots. So the lists of single slots must restore
        nothing. The same holds for the list of the model variables.
        """
        if not isinstance(found, list) or found is self._listed:
            return found
        listed = {id(variable) for variable in self._listed}
        is_of_slot = bool(found) and all(id(v) in listed for v in found)
        if name == "_trainable_variables" or is_of_slot:
            tf_private.restore_nothing(found)
        return found

    def variable_at(self, lookup, name, *cached):
        """Return the variable into which TensorFlow restores the element `name`, or None.

        `lookup` is TensorFlow's own function, with the arguments `name` and `cached`.
        """
        _, moved = self._expected
        index = moved.get(int(name), name) if name.isdigit() else name
        found = lookup(str(index), *cached)
        # TensorFlow also calls this method when a variable is added to the list. Then `name` is
        # the length of the list, and `cached` is empty. During a restore, `cached` is not
        # empty, except in TensorFlow 2.12, where only a greater `name` shows a restore.
        more = name.isdigit() and (cached or int(name) > len(self._listed))
        if found is None and more and self._family.built_variables():
            raise ValueError(too_many(self._inner))
        return found

    @contextlib.contextmanager
    def being_built(self):
        """Return a context manager in which the caller builds the inner optimizer.

        If a checkpoint was restored before, its values are assigned after the build, because
        some optimizers assign values to their slots during the build.
        """
        if not self._is_saved:
            yield
            return
        later = tf_private.restored_afterwards
        # Until the variables exist, TensorFlow keeps the values of the checkpoint in two dicts:
        # one of the list, with indices as keys, and one of the optimizer.
        with later(self._listed) as places, later(self._inner):
            yield
            awaited, _ = self._expected
            if awaited is not None:
                remember = self.forget()
                (layout, *_), _ = self._family.layouts([])
                try:
                    self.expect(awaited, self._family.manifest(0, layout.slots))
                except ValueError:
                    # The next build must not silently accept what this one refuses.
                    remember()
                    raise
            if any(p.isdigit() and int(p) >= len(self._listed) for p in places):
                raise ValueError(too_many(self._inner))

    def discard_waiting(self):
        if self._is_saved:
            tf_private.deferred(self._listed).clear()
            tf_private.deferred(self._inner).clear()

    def wait(self):
        """Return whether TensorFlow holds restored values for slots that do not exist yet."""
        waiting = tf_private.deferred(self._listed) if self._is_saved else ()
        return any(name.isdigit() for name in waiting)

    def _slots(self):
        return {**table.slot_lists(self._inner), **self.added}

    def _place_of(self, var):
        known, key = self._family.known_variables()
        return known[key(var)]

    def get_slot_names(self):
        return list(self._slots())

    def get_slot(self, var, slot_name):
        return self._slots()[slot_name][self._place_of(var)]

    def add_slot(self, var, slot_name, initializer="zeros", shape=None):
        del shape
        try:
            return self.get_slot(var, slot_name)
        except KeyError:
            made = self._family.new_slot(var, slot_name, initializer)
            self.added.setdefault(slot_name, {})[self._place_of(var)] = made
            return made

    def add_weight(self, name, shape=(), dtype=None, initializer="zeros", **kwargs):
        # `add_weight` of TensorFlow 2.0-2.15 accepted further arguments.
        del kwargs
        dtype = None if dtype is None else tf.as_dtype(dtype).name
        return self._inner.add_variable(
            shape=tuple(shape), initializer=initializer, dtype=dtype, name=name
        )
