"""What Keras 3's files and `tf.train.Checkpoint` see of a wrapped Keras 3 optimizer."""

import numpy as np
import tensorflow as tf

from tf_lso import thread_switch
from tf_lso.optimizers import checks

# Variables that each optimizer of Keras 3 has, a wrapper too: those of Keras 3's own
# wrapper, and of tf_lso's before it had the layout below, are never used.
_OF_EACH_OPTIMIZER = ("_iterations", "_learning_rate")

# On while Keras 3 loads a file of another generation: it would look for the state in
# the wrong places. `loading_models` restores it afterwards.
state_follows = thread_switch.ThreadSwitch()


class _SecondName(tf.__internal__.tracking.Trackable):
    """A variable under another name, with a place of its own in the checkpoint."""

    def __init__(self, variable):
        self._variable = variable

    def _serialize_to_tensors(self):
        return {"VARIABLE_VALUE": checks.copies(self._variable)[0].read_value()}

    def _restore_from_tensors(self, restored_tensors):
        value = restored_tensors["VARIABLE_VALUE"]
        return [copy.assign(value) for copy in checks.copies(self._variable)]


class Files:
    """The methods by which Keras 3 and `tf.train.Checkpoint` save and restore.

    A checkpoint has the names of a plain optimizer, and beside them "inner_optimizer"
    and "loss_scale". So a checkpoint of a plain optimizer restores into a wrapped one,
    and the reverse, as in TensorFlow 2.3-2.15.
    """

    # --- .keras and .weights.h5 files.

    def save_own_variables(self, store):
        """Put all state into a mapping of "0", "1", ... to arrays.

        Raises:
          ValueError: if slots wait that were set by slot, as `get_weights` lists them,
            and the scale is fixed: no file could tell that order from its own.
        """
        layout = self._own_layout()
        if layout not in self._file_layouts():
            raise ValueError(
                "set_weights() was called before the optimizer was built, whose files "
                "have another order. Build it before saving: "
                "optimizer.build(model.trainable_variables)."
            )
        for index, array in enumerate(self._arrays(layout)):
            store[str(index)] = array

    def load_own_variables(self, store):
        """Set all state from a .keras or .weights.h5 file, now or once there is a place.

        Args:
          store: mapping of "0", "1", ... to the values of `variables`, or to those of
            the inner optimizer alone, which leave the loss scale as it is. If the file's
            optimizer had other variables, a warning says that this one keeps its own
            state.
        """
        if state_follows.is_on:
            return
        arrays = [np.array(store[str(i)]) for i in range(len(store.keys()))]
        if arrays:
            self._load(arrays)
        else:
            super().load_own_variables(store)  # says that the file has no state

    def _file_layouts(self):
        # With a fixed scale nothing tells the order of "weights" from the others.
        by_slot = ["weights"] if self._own_variables() else []
        return ["variables", "unscaled", *by_slot, "inner"]

    def _layouts(self):
        inner = self.inner_optimizer.variables
        return {
            "variables": (self.variables, []),
            # Of Keras 3's own wrapper before it is built, and of a fixed scale.
            "unscaled": ([*self._variables, *inner], []),
            "weights": (self.weights, self._own_variables()),
            "weights alone": (self.weights, []),
            "inner": (inner, []),
        }

    # --- `tf.train.Checkpoint`. Private names of TensorFlow, which has no public ones.

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        if save_type != "checkpoint":
            # Neither is an attribute that Keras has seen set.
            return {
                **super()._trackable_children(save_type, **kwargs),
                "inner_optimizer": self.inner_optimizer,
                "loss_scale": self.loss_scale_state,
                **self._used_by_traced_steps(),
            }
        names = self.inner_optimizer._trackable_children(save_type, **kwargs)
        for name in _OF_EACH_OPTIMIZER:
            if name in names:
                names[name] = self._second_name(name, names[name])
        return self._with_waiting(
            {
                **names,
                "inner_optimizer": self.inner_optimizer,
                "loss_scale": self.loss_scale_state,
            }
        )

    def _second_name(self, name, variable):
        # In files of other wrappers these names have values that mean nothing. They are
        # restored in alphabetic order, so that those of "inner_optimizer" follow; and
        # they follow only if it is not one object with two names.
        names = self.__dict__.setdefault("_second_names", {})
        if name not in names:
            names[name] = _SecondName(variable)
        return names[name]

    def _lookup_dependency(self, name, cached_dependencies=None):
        if "_inner" not in self.__dict__:  # the family's constructor is at work
            return super()._lookup_dependency(name, cached_dependencies)
        waiting = self._restored(name)
        if waiting is not None:
            return waiting
        # The names that Keras 3's own wrapper gives the scale and the count.
        if name in ("step_counter", "dynamic_scale") and self.dynamic:
            return checks.raw(getattr(self, name))
        found = (cached_dependencies or self._trackable_children()).get(name)
        if found is None and name in _OF_EACH_OPTIMIZER:
            return self.__dict__.get(name)  # the inner optimizer has a schedule
        return found

    @property
    def _deferred_dependencies(self):
        # By which the inner optimizer gets what arrives before it has the variables.
        inner = self.__dict__.get("_inner")
        return (super() if inner is None else inner)._deferred_dependencies
