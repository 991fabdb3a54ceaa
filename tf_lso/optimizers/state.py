"""Save and load the state of an optimizer as a list of arrays.

Files, pickles and `get_weights` contain the same state in different orders, which are called
layouts. In each layout the slots stand together. Before or after the slots stand the variables
that exist as soon as the optimizer is constructed. These are the step counter, the loss scale
and the count of finite steps.

State may be loaded before the optimizer is built. Then these variables are set at once, and
the values of the slots are kept until the build. They are called deferred slots. A file that
is saved in the meantime contains them.
"""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import graphs, keras_versions, log
from tf_lso.frameworks import variables as variables_lib

# The name in a checkpoint under which deferred slots are saved, if there are any.
DEFERRED = "slots_that_wait"

# This switch is on while Keras 3 loads a file in which it would look for the optimizer's
# state under the wrong names. `install.loading_keras3` restores the state afterwards.
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
    """The order of the variables in a list of their values. The order has three parts."""

    # The order of the slots. In "variables" the slots of one model variable stand together. In
    # "weights" all slots of one name stand together, as in `weights` of an OptimizerV2.
    order: str
    head: list[Any]  # variables that exist from construction on
    slots: list[Any]
    tail: Sequence[Any] = ()  # as `head`

    @property
    def early(self):
        """The variables that exist as soon as the optimizer is constructed."""
        return [*self.head, *self.tail]

    @property
    def variables(self):
        """All variables of the layout, in its order."""
        return [*self.head, *self.slots, *self.tail]


class DeferredSlots(NamedTuple):
    """Slots that were loaded before the optimizer had variables for them."""

    order: str  # as in `Layout`
    slots: list[Any]  # the values, as arrays
    # A list of (variable, value before, value loaded). If the slots do not fit at the build,
    # the optimizer warns and sets these variables back to the values before. If `undo` is
    # None, slots that do not fit are an error.
    undo: list[Any] | None = None
    # The names of the model variables, if the slots were made in several builds.
    names: list[str] | None = None


def _fits(arrays, variables):
    """Return whether each array fits its variable.

    There must be as many arrays as variables, with equal shapes, and integers only for
    variables of integers.
    """
    return len(arrays) == len(variables) and all(
        np.shape(array) == tuple(variable.shape)
        and (np.asarray(array).dtype.kind in "iub")
        == tf.as_dtype(variable.dtype).is_integer
        for array, variable in zip(arrays, variables)
    )


def _why_not(arrays, whole, untrained, weights):
    """Return the reason why the arrays of a file do not fit an optimizer.

    Args:
      arrays: the arrays of the file.
      whole: all variables of the optimizer, in the usual order of files.
      untrained: the lists of variables that a file has if it was saved before the build.
      weights: the layouts that Keras 2 writes.

    Raises:
      ValueError: if a variable and its array differ in shape.
    """
    if any(_fits(arrays, variables) for variables in untrained):
        return "It was saved before the optimizer was built."
    if any(_fits(arrays, layout.variables) for layout in weights):
        return _OF_KERAS2
    if len(arrays) != len(whole):
        return f"It has {len(arrays)} variables instead of {len(whole)}."
    for variable, array in zip(whole, arrays):
        variables_lib.array_for(variable, array)  # raises for a wrong shape
    return "Its integers and floats stand at other places."


class State(tf.train.experimental.PythonState):
    """The state of one LossScaleOptimizer, which is its variables and deferred slots.

    In a `tf.train.Checkpoint` this object saves and restores only the deferred slots. The
    variables are saved as children of the optimizer.
    """

    def __init__(self, family, loss_scale, name_of_owner):
        self._family, self._loss_scale = family, loss_scale
        self._name_of_owner = name_of_owner  # function that returns a name
        self.deferred = None  # or `DeferredSlots`

    def own_variables(self):
        """Return the variables that `weights` of Keras 2 lacks, in the order of files."""
        (in_files, *_), _ = self.layouts()
        return in_files.variables[len(self._family.weights()) :]

    def layouts(self):
        """Return the layouts of files and those of `set_weights`. See `Family.layouts`."""
        scale = [variable for _, variable in self._loss_scale.named_variables()]
        return self._family.layouts(scale)

    def layouts_in(self, order):
        """Return the layouts with this order of slots. The first layout has all state."""
        files, weights = self.layouts()
        return [layout for layout in [*files, *weights] if layout.order == order]

    def names(self):
        """Return `DeferredSlots.names` for the slots that `saved` returns."""
        if self.deferred:
            return self.deferred.names
        return self._built_names() if self._family.is_built_in_parts else None

    def check_names(self):
        """Raise ValueError if `names` do not say to which variables the slots belong."""
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
        """Return all state as a list of arrays, and the order of its slots.

        Args:
          order: str, see `Layout`. Defaults to the usual order of files. If slots are
            deferred, their order is used instead.

        Returns:
          The order, and the list of arrays. The list contains deferred slots.

        Raises:
          ValueError: if slots of a checkpoint wait in TensorFlow for the build.
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
        """Return the arrays for a file, or raise ValueError if it cannot contain the slots."""
        order, arrays = self.saved()
        needs_names = self.deferred is not None and self.deferred.names is not None
        if needs_names or order not in [layout.order for layout in self.layouts()[0]]:
            raise ValueError(
                "Files have no place for what set_weights() set before the build. Build "
                "it before saving: optimizer.build(model.trainable_variables)."
            )
        return arrays

    # --- Before the build.

    def defer(self, arrays, layouts, *, is_file=False, names=None):
        """Set the variables that exist, and keep the slots until the build.

        Args:
          arrays: list of arrays in any of the layouts.
          layouts: list of `Layout`.
          is_file: bool, whether slots that do not fit at the build cause a warning and not
            a ValueError. Defaults to False.
          names: list of str, see `DeferredSlots.names`.

        Returns:
          Whether the arrays fit one of the layouts. If not, nothing is set.
        """
        if self._set(arrays, [layout.variables for layout in layouts]):
            self.deferred = None  # these arrays have no slots
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
        """Set the first list of variables that fits the arrays. Return whether one fits."""
        variables = next((v for v in lists if _fits(arrays, v)), None)
        if variables is not None:
            variables_lib.assign_all(variables, arrays)
        return variables is not None

    def restored(self, name):
        """Return this object if `name` is its name in a checkpoint, else None.

        TensorFlow calls this method when it restores a checkpoint. The slots that are
        deferred now are dropped, because the checkpoint replaces them.
        """
        self.deferred = None
        return self if name == DEFERRED else None

    def serialize(self):
        """Return the deferred slots as bytes.

        A checkpoint stores nothing else of this object.
        """
        if self.deferred is None:
            return b""  # TensorFlow also calls this method before it restores
        slots = self.deferred.slots
        # NumPy's format has no bfloat16.
        slots = [s.astype("float32") if s.dtype.kind == "V" else s for s in slots]
        file = io.BytesIO()
        np.savez(file, np.array([self.deferred.order, *(self.names() or ())]), *slots)
        return file.getvalue()

    def deserialize(self, string_value):
        """Set the slots from the bytes of a checkpoint, now or at the build."""
        with np.load(io.BytesIO(string_value), allow_pickle=False) as file:
            text, *slots = file.values()
        order, *names = map(str, np.atleast_1d(text))
        deferred = DeferredSlots(order, slots, names=names or None)
        if self._family.built_variables():
            self._set_slots(deferred)
        else:
            self._family.counter()  # an OptimizerV2 makes its counter now and restores it
            self.deferred = deferred

    # --- At the build and after it.

    def set_deferred(self):
        """Set the deferred slots. The optimizer calls this when it has been built."""
        deferred, self.deferred = self.deferred, None
        if deferred is None:
            return
        with tf.init_scope():  # set the slots now, and not in each run of a traced step
            files, _ = self.layouts()
            try:
                if deferred.undo and deferred.order not in [f.order for f in files]:
                    raise ValueError(_OF_KERAS2)
                self._set_slots(deferred)
            except ValueError as error:
                if deferred.undo is None:
                    self.deferred = deferred  # the next build may fit
                    raise
                for variable, before, loaded in deferred.undo:
                    if np.array_equal(variables_lib.numpy(variable), loaded):
                        variables_lib.assign_all([variable], [before])
                self._warn_not_loaded(error)

    def _set_slots(self, deferred):
        arrays, names = deferred.slots, self._built_names()
        if deferred.names is not None and deferred.names != names:
            raise ValueError(
                f"The state that was loaded has slots of {deferred.names}, made in several "
                f"steps, but the optimizer was built for {names}. Call build() once, with "
                "all these variables in this order, before the first step."
            )
        built = [layout.slots for layout in self.layouts_in(deferred.order)]
        slots = next((s for s in built if len(s) == len(arrays)), None)
        if slots is None:
            raise ValueError(
                f"The state that was loaded has {len(arrays)} slots, but the optimizer has "
                f"{len(built[0])}. Use the inner optimizer and the model that were saved."
            )
        variables_lib.assign_all(slots, arrays)

    def load(self, arrays):
        """Set all state from the arrays of a file. If they do not fit, warn and set nothing.

        Keras, too, only warns if the optimizer in a file had other variables.
        """
        if keras_versions.is_keras2(self._family.package):
            if not arrays:
                log.logger().warning(
                    "The file has no state of the optimizer, which starts again. Keras 2 "
                    "saves none of legacy optimizers; a program that calls "
                    "tf_lso.install() does."
                )
                return
            has_scale = bool(self._loss_scale.named_variables())
            if has_scale and _fits(arrays, self._family.weights()):
                self.warn_no_scale("The file")
        layouts, weights = self.layouts()
        if not self._family.built_variables():
            if not self.defer(arrays, layouts, is_file=True):
                self._warn_not_loaded(f"It has {len(arrays)} variables.")
            return
        whole = [layout.variables for layout in layouts]
        untrained = [layout.early for layout in layouts]
        is_new = int(variables_lib.numpy(self._family.counter())) == 0
        if self._set(arrays, [*whole, *untrained] if is_new else whole):
            return
        self._warn_not_loaded(_why_not(arrays, whole[0], untrained, weights))

    def _warn_not_loaded(self, reason):
        log.logger().warning(
            "The state of the optimizer in the file does not fit "
            f"{self._name_of_owner()}, which keeps its own: {reason}"
        )

    def warn_no_scale(self, file):
        """Warn that a file has no loss scale, so that the scale starts at its initial value."""
        log.logger().warning(
            f"{file} has no loss scale for the optimizer, so it starts at "
            f"{self._loss_scale.initial_loss_scale}. Keras 2 saves none; a program that "
            "calls tf_lso.install() does."
        )
