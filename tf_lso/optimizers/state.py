"""State as a list of arrays, which may be loaded before the optimizer is built.

Files, pickles and `get_weights` hold the same state in different orders, the layouts. In
each, the slots are between variables that exist from construction on: the step counter,
the loss scale and its count. State that is loaded before the build sets these at once.
The slots wait for the build. What is saved in the meantime contains them.
"""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_lso import log
from tf_lso.frameworks import graphs, keras_versions
from tf_lso.frameworks import variables as variables_lib

# The child of a checkpoint that holds deferred slots, if there are any.
DEFERRED = "slots_that_wait"

# On while Keras 3 loads a file of another generation. Keras would look for the state in
# the wrong places, so `loading_keras3` restores it afterwards.
state_follows = graphs.ThreadSwitch()

_OF_KERAS2 = (
    "Keras 2 wrote it, and it does not say in which order the slots are. Restore it by "
    "tf_lso.checkpoints.restore(path, model=model, optimizer=optimizer)."
)

BUILD_FIRST = (
    "A checkpoint was restored before the optimizer was built, and its slots wait in "
    "TensorFlow, from where nothing else gets them. Build it before saving or copying: "
    "optimizer.build(model.trainable_variables)."
)


class Layout(NamedTuple):
    """An order in which a list of arrays may hold state: variables in three parts."""

    order: str  # of the slots: "variables", those of each together, or "weights"
    head: list[Any]  # what exists from construction on, as does `tail`
    slots: list[Any]
    tail: Sequence[Any] = ()

    @property
    def early(self):
        """The variables that exist from construction on."""
        return [*self.head, *self.tail]

    @property
    def variables(self):
        """All variables, in their order."""
        return [*self.head, *self.slots, *self.tail]


class DeferredSlots(NamedTuple):
    """Slots that were loaded before the optimizer has variables for them."""

    order: str  # as in `Layout`
    slots: list[Any]  # of arrays
    # (Variable, value before, value loaded) of what to undo if slots do not fit, which is
    # then a warning, as Keras does for files. None if it is an error.
    undo: list[Any] | None = None
    # Of the model variables, if the order of the slots is only that of several builds.
    names: list[str] | None = None


def _fits(arrays, variables):
    """Whether the arrays have the shapes of the variables, and integer or not alike."""
    return len(arrays) == len(variables) and all(
        np.shape(array) == tuple(variable.shape)
        and (np.asarray(array).dtype.kind in "iub")
        == tf.as_dtype(variable.dtype).is_integer
        for array, variable in zip(arrays, variables)
    )


def _why_not(arrays, whole, untrained, weights):
    """Return why the arrays of a file do not fit an optimizer.

    Raises ValueError if a variable and its array differ in shape.
    """
    if any(_fits(arrays, variables) for variables in untrained):
        return "It was saved before the optimizer was built."
    if any(_fits(arrays, one.variables) for one in weights):
        return _OF_KERAS2
    if len(arrays) != len(whole):
        return f"It has {len(arrays)} variables instead of {len(whole)}."
    for variable, array in zip(whole, arrays):
        variables_lib.array_for(variable, array)  # raises for a wrong shape
    return "Its integers and floats stand at other places."


class State(tf.train.experimental.PythonState):
    """The state of one wrapped optimizer: that of its family's adapter and `LossScale`.

    In a `tf.train.Checkpoint`, which has all else by other names, the deferred slots.
    """

    def __init__(self, family, loss_scale, name_of_owner):
        self._family, self._loss_scale = family, loss_scale
        self._name_of_owner = name_of_owner  # returns what messages call the optimizer
        self.deferred = None  # or `DeferredSlots`

    def own_variables(self):
        """Return what `weights` of Keras 2 leave out, in the order of files."""
        (in_files, *_), _ = self.layouts()
        return in_files.variables[len(self._family.weights()) :]

    def layouts(self):
        """Return the layouts of files, and those of `set_weights`, see `Family`."""
        scale = [variable for _, variable in self._loss_scale.named_variables()]
        return self._family.layouts(scale)

    def layouts_in(self, order):
        """Return those with this order of slots; the first has all state."""
        files, weights = self.layouts()
        return [one for one in [*files, *weights] if one.order == order]

    def names(self):
        """Return what `DeferredSlots.names` is for the slots that `saved` returns."""
        if self.deferred:
            return self.deferred.names
        return self._built_names() if self._family.is_built_in_parts else None

    def check_names(self):
        """Raise if `names` do not tell whose slots a pickle has."""
        names = self.names() or []
        if len(set(names)) < len(names):
            raise ValueError(
                f"The slots were made in several steps, and of the variables {names} some "
                "have the same name. Call build() once with all of them, and later in the "
                "same order, or give each a name."
            )

    def _built_names(self):
        return [variables_lib.name_of(v) for v in self._family.built_variables()]

    def saved(self, order=None):
        """Return an order of slots, and all state in it, a list of arrays.

        The order is that of deferred slots, which are in the list; if there are none, the
        given one, by default that of files.
        """
        if self._family.slots_wait():
            raise ValueError(BUILD_FIRST)
        (usual, *_), _ = self.layouts()
        deferred = self.deferred
        order = deferred.order if deferred else order or usual.order
        _, *parts = self.layouts_in(order)[0]
        head, slots, tail = (map(variables_lib.numpy, part) for part in parts)
        return order, [*head, *(deferred.slots if deferred else slots), *tail]

    def saved_in_file(self):
        """Return the arrays for a file; raise if it has no place for deferred slots."""
        order, arrays = self.saved()
        needs_names = self.deferred is not None and self.deferred.names is not None
        if needs_names or order not in [one.order for one in self.layouts()[0]]:
            raise ValueError(
                "Files have no place for what set_weights() set before the build. Build "
                "it before saving: optimizer.build(model.trainable_variables)."
            )
        return arrays

    # --- Before the build.

    def defer(self, arrays, layouts, *, is_file=False, names=None):
        """Set the variables that exist, and keep the slots until the build.

        The arrays may be in any of `layouts`; return whether one fits. Slots that do not
        fit when the optimizer is built are refused, or, if `is_file`, warned about.
        """
        if self._set(arrays, [layout.variables for layout in layouts]):
            self.deferred = None  # they were saved before the build as well
            return True
        for layout in layouts:
            known, start = layout.early, len(layout.head)
            end = start + len(arrays) - len(known)
            values = [*arrays[:start], *arrays[end:]]
            if start < end and _fits(values, known):
                undo = [(v, variables_lib.numpy(v), a) for v, a in zip(known, values)]
                variables_lib.assign_all(known, values)
                self.deferred = DeferredSlots(
                    layout.order, arrays[start:end], undo if is_file else None, names
                )
                return True
        return False

    def _set(self, arrays, lists):
        """Set the first of some lists of variables that fits, and say whether one does."""
        variables = next((one for one in lists if _fits(arrays, one)), None)
        if variables is not None:
            variables_lib.assign_all(variables, arrays)
        return variables is not None

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
        np.savez(file, np.array([self.deferred.order, *(self.names() or ())]), *slots)
        return file.getvalue()

    def deserialize(self, string_value):
        """Set the slots of a checkpoint, now or when the optimizer is built."""
        with np.load(io.BytesIO(string_value), allow_pickle=False) as file:
            text, *slots = file.values()
        order, *names = map(str, np.atleast_1d(text))
        deferred = DeferredSlots(order, slots, names=names or None)
        if self._family.built_variables():
            self._set_slots(deferred)
        else:
            self._family.counter()  # an OptimizerV2 makes it now, so it is restored
            self.deferred = deferred

    # --- At the build and after it.

    def set_deferred(self):
        """Set the deferred slots, since the optimizer has just been built."""
        deferred, self.deferred = self.deferred, None
        if deferred is None:
            return
        with tf.init_scope():  # now, and not in each run of the step being traced
            files, _ = self.layouts()
            try:
                if deferred.undo and deferred.order not in [one.order for one in files]:
                    raise ValueError(_OF_KERAS2)
                self._set_slots(deferred)
            except ValueError as error:
                if deferred.undo is None:
                    self.deferred = deferred  # for a next build, of the right variables
                    raise
                for variable, before, loaded in deferred.undo:
                    if np.array_equal(variables_lib.numpy(variable), loaded):
                        variables_lib.assign_all([variable], [before])
                self._tell_skipped(error)

    def _set_slots(self, deferred):
        arrays, names = deferred.slots, self._built_names()
        if deferred.names is not None and deferred.names != names:
            raise ValueError(
                f"The state that was loaded has slots of {deferred.names}, made in several "
                f"steps, but the optimizer was built for {names}. Call build() once, with "
                "all these variables in this order, before the first step."
            )
        built = [one.slots for one in self.layouts_in(deferred.order)]
        slots = next((one for one in built if len(one) == len(arrays)), None)
        if slots is None:
            raise ValueError(
                f"The state that was loaded has {len(arrays)} slots, but the optimizer has "
                f"{len(built[0])}. Use the inner optimizer and the model that were saved."
            )
        variables_lib.assign_all(slots, arrays)

    def load(self, arrays):
        """Set all state from a file, or warn that the optimizer keeps its own.

        If a file's optimizer had other variables, Keras also warns and loads nothing.
        """
        if keras_versions.is_keras2(self._family.package):
            if not arrays:
                log.logger().warning(
                    "The file has no state of the optimizer, which starts anew. Keras 2 "
                    "saves none of legacy optimizers; a program that calls "
                    "tf_lso.install() does."
                )
                return
            has_scale = bool(self._loss_scale.named_variables())
            if has_scale and _fits(arrays, self._family.weights()):
                self.tell_no_scale("The file")
        layouts, weights = self.layouts()
        if not self._family.built_variables():
            if not self.defer(arrays, layouts, is_file=True):
                self._tell_skipped(f"It has {len(arrays)} variables.")
            return
        whole = [one.variables for one in layouts]
        untrained = [one.early for one in layouts]
        is_new = int(variables_lib.numpy(self._family.counter())) == 0
        if self._set(arrays, [*whole, *untrained] if is_new else whole):
            return
        self._tell_skipped(_why_not(arrays, whole[0], untrained, weights))

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
