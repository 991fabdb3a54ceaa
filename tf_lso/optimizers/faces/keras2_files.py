"""What files of Keras 2 hold of a wrapped optimizer of Keras 2."""

import numpy as np

from tf_lso import log, tf_private

# Family -> names in checkpoints that only optimizers of newer families have.
_NEWER = {
    "legacy": ("_variables", "_trainable_variables"),
    "new": ("_trainable_variables",),
}


class Files(tf_private.Dependencies):
    """The methods that save and load .keras and .weights.h5 files.

    The files hold the variables of the inner optimizer, as files of Keras 2 do, then
    what Keras 2 leaves out. Keras 2 calls these methods for the newer optimizers only.
    With the patches of `loading_keras2.py` it calls them for legacy ones too.
    """

    def load_own_variables(self, store):
        """Set all state from a file; slots at the latest when the optimizer is built.

        Args:
          store: mapping of "0", "1", ... to the arrays that `save_own_variables` put
            there. Files of Keras 2 itself have only the inner optimizer's variables;
            then the loss scale stays as it is. If the file's optimizer had other
            variables, a warning says that this one keeps its own state.

        Raises:
          TypeError: if an array holds no numbers.
          ValueError: if the optimizer is built, and an array has another shape than its
            variable.
        """
        arrays = [np.array(store[str(index)]) for index in range(len(store.keys()))]
        if not arrays:
            log.logger().warning(
                "The file has no state of the optimizer, which starts anew. Keras 2 saves "
                "none of legacy optimizers; a program that calls tf_lso.install() does."
            )
            return
        if len(arrays) == len(self.weights) and self._scale_variables():
            self._tell_no_scale("The file")
        self._load(arrays)

    def _save_own_variables(self, store):
        """What Keras 2.12 calls in place of `save_own_variables`."""
        self.save_own_variables(store)

    def _load_own_variables(self, store):
        """What Keras 2.12 calls in place of `load_own_variables`."""
        self.load_own_variables(store)

    def _file_layouts(self):
        return ["weights", "weights alone"]

    def _head_variables(self):
        return [self._counter(), *self._scale_variables()]

    # --- `tf.train.Checkpoint`: the wrapper takes the place of the inner optimizer.

    def _dependencies(self, save_type, **kwargs):
        children = super()._dependencies(save_type, **kwargs)
        if save_type != "checkpoint":
            return {**children, **self._used_by_traced_steps()}
        return self._with_waiting(children)

    def _dependency(self, name, known):
        if name in _NEWER[self._family]:
            inner = type(self.inner_optimizer)
            raise ValueError(
                "The checkpoint was written by an optimizer of a newer kind than "
                f"{inner.__module__}.{inner.__qualname__}, which has its state under "
                f"other names: {name!r} is one. Restore it with "
                "tf_lso.checkpoints.restore(path, model=model, optimizer=optimizer), or "
                "wrap an optimizer of the kind that was saved."
            )
        if name == "base_optimizer":
            if "_below" not in self.__dict__:  # kept, since TensorFlow refers weakly
                self.__dict__["_below"] = _Below(self)
            return self.__dict__["_below"]
        return self._restored(name) or super()._dependency(name, known)


class _Below(tf_private.Dependencies, tf_private.trackable()):  # type: ignore[misc]
    """Restores what checkpoints of TensorFlow 2.0-2.2 have below `base_optimizer`.

    In those versions checkpoints had the inner optimizer as an object of its own. Now the
    wrapper takes its place, and TensorFlow restores an object from one place only. This
    object is only restored, never saved.
    """

    def __init__(self, wrapper):
        self._wrapper = wrapper

    def _dependency(self, name, known):
        return tf_private.child(self._wrapper.inner_optimizer, name, known)

    def _awaited_dependencies(self):
        return tf_private.deferred(self._wrapper.inner_optimizer)

    def _create_or_restore_slot_variable(self, *args, **kwargs):
        return self._wrapper._create_or_restore_slot_variable(*args, **kwargs)
