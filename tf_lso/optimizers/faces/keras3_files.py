"""What files and checkpoints hold of a wrapped Keras 3 optimizer."""

import numpy as np

from tf_lso import tf_private, thread_switch
from tf_lso.optimizers import validation
from tf_lso.optimizers import variables as variables_lib
from tf_lso.optimizers.faces import keras3_private as private

# On while Keras 3 loads a file of another generation. Keras would look for the state in
# the wrong places, so `loading_models` restores it afterwards.
state_follows = thread_switch.ThreadSwitch()


class _SecondName(tf_private.trackable()):  # type: ignore[misc]
    """A second name for a variable, with its own entry in the checkpoint."""

    def __init__(self, variable):
        self._variable = variable

    def _serialize_to_tensors(self):
        return {"VARIABLE_VALUE": variables_lib.copies(self._variable)[0].read_value()}

    def _restore_from_tensors(self, restored_tensors):
        value = restored_tensors["VARIABLE_VALUE"]
        return [copy.assign(value) for copy in variables_lib.copies(self._variable)]


class Files(tf_private.Dependencies):
    """The methods that Keras 3 and `tf.train.Checkpoint` call to save and restore.

    A checkpoint has the names of a plain optimizer, and also "inner_optimizer" and
    "loss_scale". So a checkpoint of a plain optimizer can be restored into a wrapped one
    and the other way round, as in TensorFlow 2.3-2.15.
    """

    # --- Lists of arrays.

    def set_weights(self, weights):
        """Set all state from a list of arrays.

        Args:
          weights: what `get_weights` returned, with or without the loss scale and its
            count; or the values of `variables`, which Keras 3 keeps in .h5 files. If the
            optimizer is not built yet, slots are kept until the build.

        Raises:
          TypeError: if `weights` is no list, or an array holds no numbers.
          ValueError: if the number of arrays or a shape does not fit. Nothing is set.
        """
        if state_follows.is_on:
            return
        weights = validation.as_list("weights", weights)
        variables = list(self.variables)
        if self.inner_optimizer.built:
            if len(weights) == len(variables):
                variables_lib.assign_all(variables, weights)
            else:
                super().set_weights(weights)
            return
        # Copies, since the file that holds the arrays may be closed by then.
        weights = [np.array(w) for w in weights]
        layouts = ["variables", "weights", "weights alone"]
        if not self._keep_until_built(weights, layouts, is_file=False):
            super().set_weights(weights)  # raises, and says what does not fit

    # --- .keras and .weights.h5 files.

    def load_own_variables(self, store):
        """Set all state from a .keras or .weights.h5 file; slots at the latest when built.

        Args:
          store: mapping of "0", "1", ... to the values of `variables`. If it has only
            the inner optimizer's variables, the loss scale stays as it is. If the file's
            optimizer had other variables, a warning says that this one keeps its own
            state.

        Raises:
          TypeError: if an array holds no numbers.
          ValueError: if the optimizer is built, and an array has another shape than its
            variable.
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
            **super()._layouts(),
            "variables": (self.variables, []),
            # Keras 3's own wrapper writes this before it is built, or with a fixed scale.
            "unscaled": ([*private.own_variables(self), *inner], []),
            "inner": (inner, []),
        }

    # --- `tf.train.Checkpoint`.

    def _dependencies(self, save_type, **kwargs):
        # Keras did not see these two attributes being set, so it does not list them.
        own = {"inner_optimizer": self.inner_optimizer}
        own["loss_scale"] = self.loss_scale_state
        if save_type != "checkpoint":
            names = super()._dependencies(save_type, **kwargs)
            return {**names, **own, **self._used_by_traced_steps()}
        names = tf_private.children(self.inner_optimizer, save_type, **kwargs)
        for name in private.OF_EACH_OPTIMIZER:
            if name in names:
                names[name] = self._second_name(name, names[name])
        return self._with_waiting({**names, **own})

    def _second_name(self, name, variable):
        # In files of other wrappers these names have meaningless values. Names are
        # restored in alphabetic order, so the right values of "inner_optimizer" come
        # later. But they come only if this is not one object with two names.
        names = self.__dict__.setdefault("_second_names", {})
        if name not in names:
            names[name] = _SecondName(variable)
        return names[name]

    def _dependency(self, name, known):
        if "_inner" not in self.__dict__:  # the family's constructor is running
            return super()._dependency(name, known)
        waiting = self._restored(name)
        if waiting is not None:
            return waiting
        # The names that Keras 3's own wrapper gives the scale and the count.
        if name in ("step_counter", "dynamic_scale") and self.dynamic:
            return variables_lib.raw(getattr(self, name))
        found = (known or self._dependencies("checkpoint")).get(name)
        if found is None and name in private.OF_EACH_OPTIMIZER:
            return self.__dict__.get(name)  # the inner optimizer has a schedule
        return found

    def _awaited_dependencies(self):
        # So the inner optimizer gets values that arrive before it has the variables.
        inner = self.__dict__.get("_inner")
        if inner is None:
            return super()._awaited_dependencies()
        return tf_private.deferred(inner)
