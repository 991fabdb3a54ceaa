"""State as a list of arrays, put back at once or as far as there are variables.

Files, pickles and `get_weights` hold the same state in different orders. In each of them
the slots stand between variables that exist from construction on: the step counter, the
loss scale and its count. What is loaded before the optimizer is built sets these at
once. The slots wait until the optimizer is built, and whatever is saved before that
holds them.
"""

import dataclasses
import io

import numpy as np
import tensorflow as tf

from tf_lso import log
from tf_lso.optimizers import checks

# The child of checkpoints that holds the slots that wait, where some do.
WAITING = "slots_that_wait"

# Layouts that lack the loss scale -> those that hold the same slots and the scale.
_WITH_SCALE = {
    "unscaled": "variables",
    "inner": "variables",
    "weights alone": "weights",
}


@dataclasses.dataclass
class Waiting:
    """Slots that have been loaded before the optimizer has variables for them.

    Attributes:
      layout: name of the layout that the slots are in the order of.
      slots: list of arrays.
      first: how many variables of the layout stand before the slots.
      last: how many stand after them.
      undo: list of (variable, value before, value loaded) where slots that do not fit
        are told and left out, as Keras does with files; None where they are refused.
    """

    layout: str
    slots: list
    first: int
    last: int
    undo: list | None


def _fits(arrays, variables):
    """Whether the arrays have the shapes of the variables, and integers where they do."""
    return len(arrays) == len(variables) and all(
        np.shape(array) == tuple(variable.shape)
        and (np.asarray(array).dtype.kind in "iub")
        == tf.as_dtype(variable.dtype).is_integer
        for array, variable in zip(arrays, variables)
    )


class _Checkpointed(tf.train.experimental.PythonState):
    """The slots that wait, as one value of a `tf.train.Checkpoint`."""

    def __init__(self, optimizer):
        self._optimizer = optimizer

    def serialize(self):
        waiting = self._optimizer._waiting
        if waiting is None:
            return b""  # TensorFlow asks before it restores, too
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
    """The methods that take arrays out and put them back, on every face.

    A face adds `_layouts()`, {name: (variables before the slots, variables after)} with
    the slots among the former once they are built; `_file_layouts()`, the names of those
    that its files may have, its own first; `_head_variables()`, those that exist
    from construction on; and `_built_variables()`.
    """

    @property
    def _waiting(self):
        return self.__dict__.get("_waiting_slots")

    def _arrays(self, layout):
        """All state as a list of arrays, with the slots that wait."""
        first, last = self._layouts()[layout]
        slots = self._waiting.slots if self._waiting is not None else []
        values = [checks.numpy(v) for v in (*first, *last)]
        return [*values[: len(first)], *slots, *values[len(first) :]]

    def _own_layout(self):
        """The layout in which all state can be taken out now."""
        return (
            self._file_layouts()[0] if self._waiting is None else self._waiting.layout
        )

    def _keep_until_built(self, arrays, layouts, *, is_file):
        """Set what has a variable, and keep the slots; return whether a layout fits.

        Args:
          arrays: list of arrays, which are kept.
          layouts: names of the layouts that they may have.
          is_file: whether slots that do not fit are told and left out when the optimizer
            is built; otherwise they are refused then.
        """
        for layout in layouts:
            first, last = self._layouts()[layout]
            known, end = [*first, *last], len(arrays) - len(last)
            values = [*arrays[: len(first)], *arrays[end:]]
            if len(first) <= end and _fits(values, known):
                break
        else:
            return False
        undo = [(v, checks.numpy(v), value) for v, value in zip(known, values)]
        checks.assign_all(known, values)
        self._wait(layout, arrays[len(first) : end], undo if is_file else None)
        return True

    def _wait(self, layout, slots, undo):
        layout = _WITH_SCALE.get(layout, layout)
        first, last = self._layouts()[layout]
        waiting = Waiting(layout, slots, len(first), len(last), undo)
        # Not by assignment, which the families track.
        self.__dict__["_waiting_slots"] = waiting if slots else None

    def _take_slots(self, layout, slots):
        """Set slots that waited when a checkpoint was written, now or when built."""
        if self._built_variables():
            self._set_slots(
                Waiting(layout, slots, *map(len, self._heads(layout)), None)
            )
        else:
            self._wait(layout, slots, None)

    def _set_waiting(self):
        """Set the slots that wait: the optimizer has been built."""
        waiting = self.__dict__.pop("_waiting_slots", None)
        if waiting is None:
            return
        with tf.init_scope():  # now, and not in each step that is being traced
            try:
                self._set_slots(waiting)
            except ValueError as error:
                if waiting.undo is None:
                    raise
                for variable, before, loaded in waiting.undo:
                    if np.array_equal(checks.numpy(variable), loaded):
                        checks.assign_all([variable], [before])
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
        checks.assign_all(slots, waiting.slots)

    def _heads(self, layout):
        """The variables of a layout that exist from construction on, once built."""
        heads = {id(v) for v in self._head_variables()}
        return [[v for v in part if id(v) in heads] for part in self._layouts()[layout]]

    def _load(self, arrays):
        """Set all state from a file, or say that the optimizer keeps its own.

        Keras too warns, and loads nothing, where a file's optimizer had other variables.
        """
        layouts = self._file_layouts()
        if not self._built_variables():
            if not self._keep_until_built(arrays, layouts, is_file=True):
                self._tell_skipped(f"It has {len(arrays)} variables.")
            return
        whole = [[*first, *last] for first, last in map(self._layouts().get, layouts)]
        for variables in whole:
            if _fits(arrays, variables):
                checks.assign_all(variables, arrays)
                return
        for layout in layouts:
            first, last = self._heads(layout)
            heads = [*first, *last]
            if _fits(arrays, heads):
                if int(checks.numpy(self._counter())) == 0:
                    checks.assign_all(heads, arrays)
                else:
                    self._tell_skipped("It was saved before the optimizer was built.")
                return
        if len(arrays) == len(whole[0]):
            checks.assign_all(whole[0], arrays)  # which says what does not fit

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
        """Children of a SavedModel beside those of a checkpoint, a dict."""
        in_flight = self._protocol.in_flight
        return {} if in_flight is None else {"scale_in_flight": in_flight.variable}

    def _with_waiting(self, children):
        """Return the children of a checkpoint with that of the slots that wait."""
        if self._waiting is None:
            return children
        return {**children, WAITING: self._checkpointed()}

    def _restored(self, name):
        """Return the child to restore `name` into if it is that of the slots that wait.

        Slots that wait are dropped, since those of the checkpoint are newer.
        """
        self.__dict__["_waiting_slots"] = None
        return self._checkpointed() if name == WAITING else None

    def _checkpointed(self):
        # One object, by which TensorFlow knows it.
        return self.__dict__.setdefault("_checkpointed_slots", _Checkpointed(self))
