"""What tf_keras's files hold of a wrapped tf_keras optimizer."""

import numpy as np

from tf_lso import log

# Variables that an optimizer of tf_keras has and does not list: of Nadam.
HIDDEN = ("_u_product",)


class Files:
    """The methods by which .keras and .weights.h5 files are saved and loaded.

    They hold the variables of the inner optimizer, as files of tf_keras do, then what
    tf_keras leaves out. tf_keras asks only optimizers of the newer kind; with
    the patches of `loading_tf_keras.py` it asks legacy ones too.
    """

    def save_own_variables(self, store):
        """Put all state into a mapping of "0", "1", ... to arrays."""
        for index, array in enumerate(self._arrays("weights")):
            store[str(index)] = array

    def load_own_variables(self, store):
        """Set all state from a file, now or once there are variables for it.

        Args:
          store: mapping of "0", "1", ... to arrays: what `save_own_variables` put there,
            or of files of tf_keras itself the inner optimizer's variables, which leave
            the loss scale as it is. If the file's optimizer had other variables, a
            warning says that this one keeps its own state.
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
        self._counter()  # which an OptimizerV2 makes when it is first asked for
        return {
            "weights": (self.weights, self._own_variables()),
            "weights alone": (self.weights, []),
        }

    def _head_variables(self):
        return [self._counter(), *self._scale_variables()]

    # --- `tf.train.Checkpoint`, for which an optimizer stands where its inner one does.

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        children = super()._trackable_children(save_type, **kwargs)
        if save_type != "checkpoint":
            return {**children, **self._used_by_traced_steps()}
        return self._with_waiting(children)

    def _lookup_dependency(self, name, *args, **kwargs):
        return self._restored(name) or super()._lookup_dependency(name, *args, **kwargs)
