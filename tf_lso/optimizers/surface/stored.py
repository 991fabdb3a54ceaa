"""State as a list of arrays, which may be loaded before the optimizer is built.

Files, pickles and `get_weights` hold the same state in different orders. In each order
the slots are between variables that exist from construction on: the step counter, the
loss scale and its count. If state is loaded before the build, these variables are set at
once. The slots wait until the build. What is saved in the meantime contains them.
"""

import dataclasses
import io

import numpy as np
import tensorflow as tf

from tf_lso import log
from tf_lso.optimizers import variables as variables_lib

# The child of a checkpoint that holds waiting slots, if there are any.
WAITING = "slots_that_wait"

# Layout without the loss scale -> layout with the same slots and the scale.
_WITH_SCALE = {
    "unscaled": "variables",
    "inner": "variables",
    "weights alone": "weights",
}


@dataclasses.dataclass
class Waiting:
    """Slots that were loaded before the optimizer has variables for them.

    Attributes:
      layout: name of the layout that gives the order of the slots.
      slots: list of arrays.
      first: number of variables before the slots in the layout.
      last: number of variables after them.
      undo: list of (variable, value before, value loaded) if slots that do not fit are
        left out with a warning, as Keras does for files. None if they are refused.
    """

    layout: str
    slots: list
    first: int
    last: int
    undo: list | None


def _fits(arrays, variables):
    """Whether the arrays have the shapes of the variables, and integer or not alike."""
    return len(arrays) == len(variables) and all(
        np.shape(array) == tuple(variable.shape)
        and (np.asarray(array).dtype.kind in "iub")
        == tf.as_dtype(variable.dtype).is_integer
        for array, variable in zip(arrays, variables)
    )


class _Checkpointed(tf.train.experimental.PythonState):
    """The waiting slots, as one value of a `tf.train.Checkpoint`."""

    def __init__(self, optimizer):
        self._optimizer = optimizer

    def serialize(self):
        waiting = self._optimizer._waiting
        if waiting is None:
            return b""  # TensorFlow also asks before it restores
        # NumPy's format has no bfloat16.
        slots = [
            s.astype("float32") if s.dtype.kind == "V" else s for s in waiting.slots
        ]
        file = io.BytesIO()
        np.savez(file, np.array(waiting.layout), *slots)
        return file.getvalue()

    def deserialize(self, string_value):
        with np.load(io.BytesIO(string_value), allow_pickle=False) as file:
            layout, *slots = [file[f"arr_{i}"] for i in range(len(file.files))]
        self._optimizer._take_slots(str(layout), slots)


class Stored:
    """The methods that get and set lists of arrays, on every face."""

    @property
    def _waiting(self):
        return self.__dict__.get("_waiting_slots")

    def _arrays(self, layout):
        """Return all state as a list of arrays, including waiting slots."""
        first, last = self._layouts()[layout]
        slots = self._waiting.slots if self._waiting is not None else []
        values = [variables_lib.numpy(v) for v in (*first, *last)]
        return [*values[: len(first)], *slots, *values[len(first) :]]

    def _own_layout(self):
        """Return the layout that can hold all state now."""
        return (
            self._file_layouts()[0] if self._waiting is None else self._waiting.layout
        )

    def _keep_until_built(self, arrays, layouts, *, is_file):
        """Set the variables that exist, and keep the slots until the build.

        Args:
          arrays: list of arrays, which are kept.
          layouts: names of the layouts that they may have.
          is_file: whether slots that do not fit are left out with a warning when the
            optimizer is built. Otherwise they are refused then.

        Returns:
          Whether a layout fits.
        """
        for layout in layouts:
            first, last = self._layouts()[layout]
            known, end = [*first, *last], len(arrays) - len(last)
            values = [*arrays[: len(first)], *arrays[end:]]
            if len(first) <= end and _fits(values, known):
                break
        else:
            return False
        undo = [(v, variables_lib.numpy(v), value) for v, value in zip(known, values)]
        variables_lib.assign_all(known, values)
        self._wait(layout, arrays[len(first) : end], undo if is_file else None)
        return True

    def _wait(self, layout, slots, undo):
        layout = _WITH_SCALE.get(layout, layout)
        first, last = self._layouts()[layout]
        waiting = Waiting(layout, slots, len(first), len(last), undo)
        # Attribute assignment would not do: the families track it.
        self.__dict__["_waiting_slots"] = waiting if slots else None

    def _take_slots(self, layout, slots):
        """Set slots that were waiting when a checkpoint was written, now or when built."""
        if self._built_variables():
            self._set_slots(
                Waiting(layout, slots, *map(len, self._heads(layout)), None)
            )
        else:
            self._wait(layout, slots, None)

    def _set_waiting(self):
        """Set the waiting slots, since the optimizer has just been built."""
        waiting = self.__dict__.pop("_waiting_slots", None)
        if waiting is None:
            return
        with tf.init_scope():  # now, and not in each run of the step being traced
            try:
                self._set_slots(waiting)
            except ValueError as error:
                if waiting.undo is None:
                    raise
                for variable, before, loaded in waiting.undo:
                    if np.array_equal(variables_lib.numpy(variable), loaded):
                        variables_lib.assign_all([variable], [before])
                self._tell_skipped(error)

    def _set_slots(self, waiting):
        first, last = self._layouts()[waiting.layout]
        variables = [*first, *last]
        slots = variables[waiting.first : len(variables) - waiting.last]
        if len(slots) != len(waiting.slots):
            # Files of tf_keras lack what it hides.
            hidden = {id(v) for v in self._hidden_variables()}
            slots = [v for v in slots if id(v) not in hidden]
        if len(slots) != len(waiting.slots):
            raise ValueError(
                f"The state that was loaded has {len(waiting.slots)} slots, but "
                f"{type(self).__name__} has {len(slots)}. Make it as it was when the "
                "state was saved: the same inner optimizer and model."
            )
        variables_lib.assign_all(slots, waiting.slots)

    def _heads(self, layout):
        """Return the variables of a layout that exist from construction on."""
        heads = {id(v) for v in self._head_variables()}
        return [[v for v in part if id(v) in heads] for part in self._layouts()[layout]]

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
                "set_weights() was called before the optimizer was built, and "
                "files keep another order. Build it before saving: "
                "optimizer.build(model.trainable_variables)."
            )
        for index, array in enumerate(self._arrays(layout)):
            store[str(index)] = array

    def _load(self, arrays):
        """Set all state from a file, or warn that the optimizer keeps its own.

        If a file's optimizer had other variables, Keras also warns and loads nothing.
        """
        layouts = self._file_layouts()
        if not self._built_variables():
            if not self._keep_until_built(arrays, layouts, is_file=True):
                self._tell_skipped(f"It has {len(arrays)} variables.")
            return
        whole = [[*first, *last] for first, last in map(self._layouts().get, layouts)]
        for variables in whole:
            if _fits(arrays, variables):
                variables_lib.assign_all(variables, arrays)
                return
        for layout in layouts:
            first, last = self._heads(layout)
            heads = [*first, *last]
            if _fits(arrays, heads):
                if int(variables_lib.numpy(self._counter())) == 0:
                    variables_lib.assign_all(heads, arrays)
                else:
                    self._tell_skipped("It was saved before the optimizer was built.")
                return
        if len(arrays) == len(whole[0]):
            for variable, array in zip(whole[0], arrays):
                variables_lib.array_for(variable, array)  # raises for a wrong shape
            self._tell_skipped("Its integers and floats stand at other places.")
            return
        self._tell_skipped(
            f"It has {len(arrays)} variables instead of {len(whole[0])}."
        )

    def _tell_skipped(self, reason):
        log.logger().warning(
            "The state of the optimizer in the file does not fit %s, which keeps its "
            "own: %s",
            self.name,
            reason,
        )

    # --- `tf.train.Checkpoint`.

    def _used_by_traced_steps(self):
        """Return what a SavedModel has in addition to a checkpoint's children, a dict."""
        return self._skipped.variables()

    def _with_waiting(self, children):
        """Return the children of a checkpoint, including that of waiting slots."""
        if self._waiting is None:
            return children
        return {**children, WAITING: self._checkpointed()}

    def _restored(self, name):
        """Return the child for waiting slots if that is `name`, else None.

        Slots that wait now are dropped, since those of the checkpoint are newer.
        """
        self.__dict__["_waiting_slots"] = None
        return self._checkpointed() if name == WAITING else None

    def _checkpointed(self):
        # Always the same object, since TensorFlow knows children by identity.
        return self.__dict__.setdefault("_checkpointed_slots", _Checkpointed(self))

    def _tell_no_scale(self, file):
        log.logger().warning(
            "%s has no loss scale for the optimizer, so it starts at %s. Keras 2 saves "
            "none; a program that calls tf_lso.install() does.",
            file,
            self.initial_scale,
        )
