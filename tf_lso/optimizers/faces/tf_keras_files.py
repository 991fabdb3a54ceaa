"""What files of tf_keras hold of a wrapped tf_keras optimizer."""

import numpy as np

from tf_lso import log

# Variables that an optimizer of tf_keras does not list. Nadam has one.
HIDDEN = ("_u_product",)


class Files:
    """The methods that save and load .keras and .weights.h5 files.

    The files hold the variables of the inner optimizer, as files of tf_keras do, then
    what tf_keras leaves out. tf_keras calls these methods for the newer optimizers only.
    With the patches of `loading_tf_keras.py` it calls them for legacy ones too.
    """

    def save_own_variables(self, store):
        """Put all state into a mapping of "0", "1", ... to arrays."""
        for index, array in enumerate(self._arrays("weights")):
            store[str(index)] = array

    def load_own_variables(self, store):
        """Set all state from a file; slots at the latest when the optimizer is built.

        Args:
          store: mapping of "0", "1", ... to the arrays that `save_own_variables` put
            there. Files of tf_keras itself have only the inner optimizer's variables;
            then the loss scale stays as it is. If the file's optimizer had other
            variables, a warning says that this one keeps its own state.
        """
        arrays = [np.array(store[str(index)]) for index in range(len(store.keys()))]
        if not arrays:
            log.logger().warning(
                "The file has no state of the optimizer (tf_keras does not save that of "
                "legacy ones, and tf_lso does while it is installed). It starts anew."
            )
            return
        if len(arrays) == len(self.weights) and self._scale_variables():
            log.logger().warning(
                "The file has no loss scale for the optimizer (tf_keras does not save "
                "it, and tf_lso does while it is installed). It starts at %s.",
                self.initial_scale,
            )
        self._load(arrays)

    def _file_layouts(self):
        return ["weights", "weights alone"]

    def _layouts(self):
        self._counter()  # an OptimizerV2 makes it when it is first asked for
        return {
            "weights": (self.weights, self._own_variables()),
            "weights alone": (self.weights, []),
        }

    def _head_variables(self):
        return [self._counter(), *self._scale_variables()]

    # --- `tf.train.Checkpoint`: the wrapper takes the place of the inner optimizer.

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        children = super()._trackable_children(save_type, **kwargs)
        if save_type != "checkpoint":
            return {**children, **self._used_by_traced_steps()}
        return self._with_waiting(children)

    def _lookup_dependency(self, name, *args, **kwargs):
        return self._restored(name) or super()._lookup_dependency(name, *args, **kwargs)
