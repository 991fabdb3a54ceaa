"""What files and checkpoints hold of a wrapped Keras 3 optimizer."""

import numpy as np
import tensorflow as tf

from tf_lso import thread_switch
from tf_lso.optimizers import checks

# Every optimizer of Keras 3 has these variables. A wrapper has them too, but they are
# never used.
_OF_EACH_OPTIMIZER = ("_iterations", "_learning_rate")

# On while Keras 3 loads a file of another generation. Keras would look for the state in
# the wrong places, so `loading_models` restores it afterwards.
state_follows = thread_switch.ThreadSwitch()


class _SecondName(tf.__internal__.tracking.Trackable):
    """A second name for a variable, with its own entry in the checkpoint."""

    def __init__(self, variable):
        self._variable = variable

    def _serialize_to_tensors(self):
        return {"VARIABLE_VALUE": checks.copies(self._variable)[0].read_value()}

    def _restore_from_tensors(self, restored_tensors):
        value = restored_tensors["VARIABLE_VALUE"]
        return [copy.assign(value) for copy in checks.copies(self._variable)]


class Files:
    """The methods that Keras 3 and `tf.train.Checkpoint` call to save and restore.

    A checkpoint has the names of a plain optimizer, and also "inner_optimizer" and
    "loss_scale". So a checkpoint of a plain optimizer can be restored into a wrapped one
    and the other way round, as in TensorFlow 2.3-2.15.
    """

    # --- .keras and .weights.h5 files.

    def save_own_variables(self, store):
        """Put all state into a mapping of "0", "1", ... to arrays.

        Args:
          store: the mapping.

        Raises:
          ValueError: if the scale is fixed and slots wait that `set_weights` got, in the
            order of `get_weights`. A reader could not tell that order from the file's.
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
        """Set all state from a .keras or .weights.h5 file; slots at the latest when built.

        Args:
          store: mapping of "0", "1", ... to the values of `variables`. If it has only
            the inner optimizer's variables, the loss scale stays as it is. If the file's
            optimizer had other variables, a warning says that this one keeps its own
            state.
        """
        if state_follows.is_on:
            return
        arrays = [np.array(store[str(i)]) for i in range(len(store.keys()))]
        if arrays:
            self._load(arrays)
        else:
            super().load_own_variables(store)  # warns that the file has no state

    def _file_layouts(self):
        # With a fixed scale nothing distinguishes the order of "weights" from the others.
        by_slot = ["weights"] if self._own_variables() else []
        return ["variables", "unscaled", *by_slot, "inner"]

    def _layouts(self):
        inner = self.inner_optimizer.variables
        return {
            "variables": (self.variables, []),
            # Keras 3's own wrapper writes this before it is built, or with a fixed scale.
            "unscaled": ([*self._variables, *inner], []),
            "weights": (self.weights, self._own_variables()),
            "weights alone": (self.weights, []),
            "inner": (inner, []),
        }

    # --- `tf.train.Checkpoint`: private methods of TensorFlow, which has no public ones.

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        if save_type != "checkpoint":
            # Keras did not see these two attributes being set, so it does not list them.
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
        # In files of other wrappers these names have meaningless values. Names are
        # restored in alphabetic order, so the right values of "inner_optimizer" come
        # later. But they come only if this is not one object with two names.
        names = self.__dict__.setdefault("_second_names", {})
        if name not in names:
            names[name] = _SecondName(variable)
        return names[name]

    def _lookup_dependency(self, name, cached_dependencies=None):
        if "_inner" not in self.__dict__:  # the family's constructor is running
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
        # So the inner optimizer gets values that arrive before it has the variables.
        inner = self.__dict__.get("_inner")
        return (super() if inner is None else inner)._deferred_dependencies
