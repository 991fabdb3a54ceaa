"""Save and load the state of an optimizer as a list of arrays.

Files, pickles and `get_weights` contain the same state in different orders. Such an order
is called a layout. The slots are the variables that an optimizer creates for the model
variables when it is built. In each layout all slots stand together. The other variables stand
before or after the slots: the step counter, the loss scale and the count of finite steps.
These other variables exist as soon as the optimizer is constructed.

A program may load state before the optimizer is built. Then the variables that exist are
set at once, and the values of the slots are kept until the build. Slots whose values are
kept are called deferred slots. A file that is saved before the build contains the deferred
slots.
"""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import graphs, keras_versions, log
from tf_lso.frameworks import variables as variables_lib

# `DEFERRED` is the name under which a checkpoint contains the deferred slots. These are the
# values of slots that a program loaded before the optimizer was built.
DEFERRED = "slots_that_wait"

# While this switch is on, Keras's attempts to load the optimizer's state have no effect.
# The module `install.loading_keras3` turns the switch on while Keras 3 loads a model of
# Keras 2, because Keras 3 would look for the state under the wrong names. The module
# restores the state afterwards.
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
    """The order of an optimizer's variables in a file or in another list of saved arrays.

    The variables in `head` come first. The variables in `slots` follow, and then the variables
    in `tail`.
    """

    # `order` is the order of the slots, either "variables" or "weights". In "variables" the
    # slots of one model variable stand together. In "weights" all slots with the same slot
    # name stand together, as in the attribute `weights` of a legacy Keras 2 optimizer.
    order: str
    # `head` and `tail` contain the variables that exist as soon as the optimizer is
    # constructed, such as the step counter. Slots exist only after the optimizer is built.
    head: list[Any]
    slots: list[Any]
    tail: Sequence[Any] = ()

    @property
    def early(self):
        """A list of the variables in `head` and `tail`, which exist before the build."""
        return [*self.head, *self.tail]

    @property
    def variables(self):
        """A list of the variables in `head`, `slots` and `tail`, in this order."""
        return [*self.head, *self.slots, *self.tail]


class DeferredSlots(NamedTuple):
    """The values of slots that were loaded before the optimizer was built."""

    # `order` is the order of the arrays in `slots`, either "variables" or "weights". See
    # `Layout.order`.
    order: str
    # `slots` contains the values of the slots as arrays.
    slots: list[Any]
    # `undo` decides what happens if the deferred slots do not fit the optimizer when it is
    # built. If `undo` is None, the build raises an error. Otherwise the build only warns, and
    # the variables that were loaded together with the slots get their old values back. `undo`
    # is a list of tuples (variable, old value, loaded value). A variable that no longer has
    # the loaded value is not changed.
    undo: list[Any] | None = None
    # `names` contains the names of the model variables in the order in which the optimizer
    # was built for them. If no names were saved, `names` is None. See `State.names`.
    names: list[str] | None = None


def _fits(arrays, variables):
    """Return whether each array fits its variable.

    There must be as many arrays as variables. Each array must have the shape of its
    variable. Arrays of integers fit only integer variables, and other arrays fit only other
    variables.
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
      whole: list of all variables of the optimizer, in the order in which new files contain
        them.
      untrained: list of lists of variables. If the file was saved before the optimizer was
        built, the arrays fit one of these lists.
      weights: list of `Layout`. If the arrays fit one of these layouts, Keras 2 wrote the
        file.

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
        # Call `array_for` only to raise ValueError if the variable and its array differ in
        # shape.
        variables_lib.array_for(variable, array)
    return "Its integers and floats stand at other places."


class State(tf.train.experimental.PythonState):
    """The state of one LossScaleOptimizer: its variables and its deferred slots.

    The deferred slots are the values of slots that a program loaded before the optimizer was
    built. In a `tf.train.Checkpoint` this object saves and restores only the deferred slots.
    The checkpoint saves the variables as dependencies of the optimizer.
    """

    def __init__(self, family, loss_scale, name_of_owner):
        self._family, self._loss_scale = family, loss_scale
        # `name_of_owner` is a function that returns the name of the LossScaleOptimizer.
        # Warnings contain this name.
        self._name_of_owner = name_of_owner
        # `deferred` is a `DeferredSlots`, or None if no slots are deferred.
        self.deferred = None

    def own_variables(self):
        """Return the variables of a Keras 2 optimizer that its property `weights` lacks.

        These are mainly the variables of the loss scale. The list has the order in which
        files contain the variables.
        """
        (in_files, *_), _ = self.layouts()
        return in_files.variables[len(self._family.weights()) :]

    def layouts(self):
        """Return the possible orders of the optimizer's arrays, as two lists of `Layout`.

        The first list is for the arrays in files, and the second is for the arrays that
        `set_weights` accepts. See also `Family.layouts`.
        """
        scale = [variable for _, variable in self._loss_scale.named_variables()]
        return self._family.layouts(scale)

    def layouts_in(self, order):
        """Return a list of the layouts whose slots are in the order `order`.

        `order` is "variables" or "weights", see `Layout.order`. The first layout in the list
        contains the most variables.
        """
        files, weights = self.layouts()
        return [layout for layout in [*files, *weights] if layout.order == order]

    def names(self):
        """Return the names of the model variables that are saved with the slots, or None.

        Names are saved only if the optimizer was built several times, for different model
        variables. Then the names record the order of the builds, because the order of the
        slots depends on the order of the builds.
        """
        if self.deferred:
            return self.deferred.names
        return self._built_names() if self._family.is_built_in_parts else None

    def check_names(self):
        """Raise ValueError if two model variables have the same name in `self.names()`."""
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
        """Return the whole state as a list of arrays, together with the order of the slots.

        Args:
          order: "variables" or "weights", the order of the slots, see `Layout.order`. Defaults
            to the order in new files. If the state has deferred slots, which are arrays that
            wait for the build, the list keeps their order, and `order` is ignored.

        Returns:
          A pair (order, list of arrays). The list includes the deferred slots.

        Raises:
          ValueError: if a checkpoint was restored before the build, and TensorFlow restores
            the slots only at the build.
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
        """Return the list of the arrays that a file must contain.

        Raises:
          ValueError: if a file cannot contain the deferred slots, or if the method `saved`
            raises ValueError.
        """
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
        """Set the variables that exist, and store the slot values until the build.

        Args:
          arrays: list of arrays in one of the layouts.
          layouts: list of `Layout`.
          is_file: bool, whether the arrays come from a file. If slots of a file do not fit
            at the build, there is a warning instead of a ValueError. Defaults to False.
          names: list of str, see `DeferredSlots.names`.

        Returns:
          Whether the arrays fit one of the layouts. If they do not fit, nothing is set.
        """
        if self._set(arrays, [layout.variables for layout in layouts]):
            # All arrays were set at once, so no slots are deferred.
            self.deferred = None
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
        """Set the variables of the first list in `lists` that the arrays fit.

        Return whether the arrays fit one of the lists of variables.
        """
        variables = next((v for v in lists if _fits(arrays, v)), None)
        if variables is not None:
            variables_lib.assign_all(variables, arrays)
        return variables is not None

    def restored(self, name):
        """Return this object if `name` is its name in checkpoints, else None.

        The optimizer calls this method when TensorFlow restores a checkpoint. The values in
        the checkpoint replace the deferred slots, so this method drops the deferred slots.
        """
        self.deferred = None
        return self if name == DEFERRED else None

    def serialize(self):
        """Return the deferred slots as bytes. Checkpoints store these bytes."""
        if self.deferred is None:
            # The optimizer may have no deferred slots, because TensorFlow also calls this
            # method before it restores a checkpoint.
            return b""
        slots = self.deferred.slots
        # Convert bfloat16, because NumPy's file format does not support this dtype.
        slots = [s.astype("float32") if s.dtype.kind == "V" else s for s in slots]
        file = io.BytesIO()
        np.savez(file, np.array([self.deferred.order, *(self.names() or ())]), *slots)
        return file.getvalue()

    def deserialize(self, string_value):
        """Set the slots from the bytes that `serialize` returned.

        If the optimizer is not built yet, the slots are deferred.
        """
        with np.load(io.BytesIO(string_value), allow_pickle=False) as file:
            text, *slots = file.values()
        order, *names = map(str, np.atleast_1d(text))
        deferred = DeferredSlots(order, slots, names=names or None)
        if self._family.built_variables():
            self._set_slots(deferred)
        else:
            # The first call of `counter` creates the step counter of a legacy optimizer.
            # Create the step counter now, so that TensorFlow restores it now and not later.
            self._family.counter()
            self.deferred = deferred

    # --- At the build and after it.

    def set_deferred(self):
        """Assign the deferred values to the slots.

        The optimizer calls this method after each build.
        """
        deferred, self.deferred = self.deferred, None
        if deferred is None:
            return
        # A step in a `tf.function` may build the optimizer. Without `init_scope`, each later
        # run of the function would set the slots to the deferred values again.
        with tf.init_scope():
            files, _ = self.layouts()
            try:
                if deferred.undo and deferred.order not in [f.order for f in files]:
                    raise ValueError(_OF_KERAS2)
                self._set_slots(deferred)
            except ValueError as error:
                if deferred.undo is None:
                    # Defer the slots again, because they may fit at the next build.
                    self.deferred = deferred
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
        """Set the state of the optimizer to the arrays of a file.

        If the arrays do not fit the optimizer, this method warns and sets nothing. Keras
        also only warns in this case.
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
        """Warn that a file contains no loss scale, so the initial loss scale is used."""
        log.logger().warning(
            f"{file} has no loss scale for the optimizer, so it starts at "
            f"{self._loss_scale.initial_loss_scale}. Keras 2 saves none; a program that "
            "calls tf_lso.install() does."
        )
