"""State as a list of arrays, which may be loaded before the optimizer is built.

Files, pickles and `get_weights` hold the same state in different orders, the layouts. In
each, the slots are between variables that exist from construction on: the step counter,
the loss scale and its count. State that is loaded before the build sets these at once.
The slots wait for the build. What is saved in the meantime contains them.
"""

import io
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_lso import log, thread_switch
from tf_lso.optimizers import variables as variables_lib

# The child of a checkpoint that holds deferred slots, if there are any.
DEFERRED = "slots_that_wait"

# On while Keras 3 loads a file of another generation. Keras would look for the state in
# the wrong places, so `loading_models` restores it afterwards.
state_follows = thread_switch.ThreadSwitch()


class DeferredSlots(NamedTuple):
    """Slots that were loaded before the optimizer has variables for them."""

    layout: str  # the name of the layout that gives the order of the slots
    slots: list  # of arrays
    known: list  # the variables of the layout that are not slots
    # (Variable, value before, value loaded) of what to undo if slots do not fit, which is
    # then a warning, as Keras does for files. None if it is an error.
    undo: list | None = None


def _fits(arrays, variables):
    """Whether the arrays have the shapes of the variables, and integer or not alike."""
    return len(arrays) == len(variables) and all(
        np.shape(array) == tuple(variable.shape)
        and (np.asarray(array).dtype.kind in "iub")
        == tf.as_dtype(variable.dtype).is_integer
        for array, variable in zip(arrays, variables)
    )


class State(tf.train.experimental.PythonState):
    """The state of one wrapped optimizer: that of its family's adapter and `LossScale`.

    In a `tf.train.Checkpoint`, which has all else by other names, the deferred slots.
    """

    def __init__(self, family, loss_scale, name_of_owner):
        self._family, self._loss_scale = family, loss_scale
        self._name_of_owner = name_of_owner  # returns what messages call the optimizer
        self.deferred = None  # or `DeferredSlots`

    def scale_variables(self):
        """Return the variables of the loss scale, a list."""
        return [variable for _, variable in self._loss_scale.named_variables()]

    def own_variables(self):
        """Return the variables that `weights` leaves out, in the order of files."""
        return [*self._family.hidden_variables(), *self.scale_variables()]

    def _parts(self, layout):
        """Return the variables before the slots in a layout, and those after them."""
        return self._family.layouts(self.own_variables())[layout]

    def variables(self, layout):
        """Return the variables of a layout, in its order."""
        first, last = self._parts(layout)
        return [*first, *last]

    def _before_build(self, layout):
        """Return those of them that exist from construction on."""
        early = self._family.variables_before_build(self.scale_variables())
        known = set(map(id, early))
        return [v for v in self.variables(layout) if id(v) in known]

    def saved(self, usual):
        """Return a layout and all state in it, a list of arrays with the deferred slots.

        It is that of the deferred slots, or `usual` if there are none.
        """
        layout, slots, *_ = self.deferred or (usual, ())
        first, last = (map(variables_lib.numpy, part) for part in self._parts(layout))
        return layout, [*first, *slots, *last]

    def saved_in_file(self):
        """Return the arrays for a file; raise if it has no place for deferred slots."""
        layout, arrays = self.saved(self._family.file_layouts[0])
        if layout not in self._family.file_layouts:
            raise ValueError(
                "Files have no place for what set_weights() set before the build. Build "
                "it before saving: optimizer.build(model.trainable_variables)."
            )
        return arrays

    # --- Before the build.

    def defer(self, arrays, layouts, *, is_file):
        """Set the variables that exist, and keep the slots until the build.

        The arrays may be in any of `layouts`; return whether one fits. Slots that do not
        fit when the optimizer is built are refused, or, if `is_file`, warned about.
        """
        for layout in layouts:
            first, last = self._parts(layout)
            known, start, end = [*first, *last], len(first), len(arrays) - len(last)
            values = [*arrays[:start], *arrays[end:]]
            if start <= end and _fits(values, known):
                undo = [(v, variables_lib.numpy(v), a) for v, a in zip(known, values)]
                variables_lib.assign_all(known, values)
                self._wait(layout, arrays[start:end], undo if is_file else None)
                return True
        return False

    def _wait(self, layout, slots, undo=None):
        # What is saved has the loss scale, in the layout with the same order of slots.
        layout = "weights" if layout in ("weights", "weights alone") else "variables"
        deferred = DeferredSlots(layout, slots, self.variables(layout), undo)
        self.deferred = deferred if slots else None

    def restored(self, name):
        """Return the child of a checkpoint that has `name` if that is ours, else None.

        Slots that are deferred now are dropped, since those of the checkpoint are newer.
        """
        self.deferred = None
        return self if name == DEFERRED else None

    def serialize(self):
        """Return the deferred slots as the one value of a checkpoint."""
        if self.deferred is None:
            return b""  # TensorFlow also asks before it restores
        slots = self.deferred.slots
        # NumPy's format has no bfloat16.
        slots = [s.astype("float32") if s.dtype.kind == "V" else s for s in slots]
        file = io.BytesIO()
        np.savez(file, np.array(self.deferred.layout), *slots)
        return file.getvalue()

    def deserialize(self, string_value):
        """Set the slots of a checkpoint, now or when the optimizer is built."""
        with np.load(io.BytesIO(string_value), allow_pickle=False) as file:
            layout, *slots = file.values()
        layout = str(layout)
        if self._family.built_variables():
            self._set_slots(DeferredSlots(layout, slots, self._before_build(layout)))
        else:
            self._wait(layout, slots)

    # --- At the build and after it.

    def set_deferred(self):
        """Set the deferred slots, since the optimizer has just been built."""
        deferred, self.deferred = self.deferred, None
        if deferred is None:
            return
        with tf.init_scope():  # now, and not in each run of the step being traced
            try:
                self._set_slots(deferred)
            except ValueError as error:
                if deferred.undo is None:
                    raise
                for variable, before, loaded in deferred.undo:
                    if np.array_equal(variables_lib.numpy(variable), loaded):
                        variables_lib.assign_all([variable], [before])
                self._tell_skipped(error)

    def _set_slots(self, deferred):
        known = set(map(id, deferred.known))
        slots = [v for v in self.variables(deferred.layout) if id(v) not in known]
        hidden = len(self._family.hidden_variables())  # the last; tf_keras saves none
        if len(deferred.slots) not in (len(slots), len(slots) - hidden):
            raise ValueError(
                f"The state that was loaded has {len(deferred.slots)} slots, but the "
                f"optimizer has {len(slots)}. Use the inner optimizer and the model that "
                "were saved."
            )
        variables_lib.assign_all(slots, deferred.slots)

    def load(self, arrays):
        """Set all state from a file, or warn that the optimizer keeps its own.

        If a file's optimizer had other variables, Keras also warns and loads nothing.
        """
        layouts = self._family.file_layouts
        if not self._family.built_variables():
            if not self.defer(arrays, layouts, is_file=True):
                self._tell_skipped(f"It has {len(arrays)} variables.")
            return
        whole = [self.variables(layout) for layout in layouts]
        untrained = [self._before_build(layout) for layout in layouts]
        is_new = int(variables_lib.numpy(self._family.counter())) == 0
        for variables in [*whole, *untrained] if is_new else whole:
            if _fits(arrays, variables):
                variables_lib.assign_all(variables, arrays)
                return
        if any(_fits(arrays, variables) for variables in untrained):
            reason = "It was saved before the optimizer was built."
        elif len(arrays) != len(whole[0]):
            reason = f"It has {len(arrays)} variables instead of {len(whole[0])}."
        else:
            for variable, array in zip(whole[0], arrays):
                variables_lib.array_for(variable, array)  # raises for a wrong shape
            reason = "Its integers and floats stand at other places."
        self._tell_skipped(reason)

    def _tell_skipped(self, reason):
        log.logger().warning(
            "The state of the optimizer in the file does not fit "
            f"{self._name_of_owner()}, which keeps its own: {reason}"
        )

    def tell_no_scale(self, file):
        """Warn that a file of Keras 2 has no loss scale, so it starts as it is made."""
        log.logger().warning(
            f"{file} has no loss scale for the optimizer, so it starts at "
            f"{self._loss_scale.initial_loss_scale}. Keras 2 saves none; a program that "
            "calls tf_lso.install() does."
        )
