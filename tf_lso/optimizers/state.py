"""Save and load the state of an optimizer as a list of arrays.

Files, pickles and `get_weights` contain the same state in different orders. Such an order
is called a layout. The slots are the variables that an optimizer creates for the model
variables when it is built. In each layout all slots stand together. The other variables stand
before or after the slots: the step counter, the loss scale and the count of finite steps.
These other variables exist as soon as the optimizer is constructed.

A program may load state before the optimizer is built. Then the variables that exist are
set at once, and the values of the slots are kept until the build. Slots whose values are
kept are called deferred slots. A file that is saved before the build contains them.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import graphs, keras_versions, log, tf_private
from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import manifest as manifest_lib
from tf_lso.optimizers import manifest_comparison

# One of these names is in every checkpoint of an optimizer: a list of Keras 3 and of the newer
# optimizers of Keras 2, the step counter of OptimizerV2, or its wrapper in TensorFlow 2.0-2.2.
_IN_EVERY_CHECKPOINT = ("_variables", "iter", "base_optimizer")

# While this switch is on, Keras's attempts to load the optimizer's state have no effect.
# Keras 3 would look for the state in a model of Keras 2 under the wrong names, so the module
# `install.loading_keras3` restores the state after Keras has loaded the model.
state_follows = graphs.ThreadSwitch()

_OF_KERAS2 = (
    "Keras 2 wrote it, and it does not record the order of the slots. Restore it with "
    "tf_lso.checkpoints.restore(path, model=model, optimizer=optimizer)."
)

_MORE_OR_FEWER = (
    "It has {} variables in addition to the slots. The loss scale may have been dynamic, and "
    "fixed here. Restore the file with tf_lso.checkpoints.restore(path, model=model, "
    "optimizer=optimizer)."
)

BUILD_FIRST = (
    "The optimizer is not built, so the slots that were restored or loaded are not in use "
    "yet. Build it before saving or copying: "
    "optimizer.build(model.trainable_variables). See `tf-lso help not-built`"
)


class Layout(NamedTuple):
    """The order of an optimizer's variables in a list: `head`, then `slots`, then `tail`."""

    # Either "variables" or "weights". In "variables" the slots of one model variable stand
    # together. In "weights" all slots with the same slot name stand together, as in the
    # attribute `weights` of a legacy Keras 2 optimizer.
    order: str
    head: list[Any]
    slots: list[Any]
    tail: Sequence[Any] = ()

    @property
    def early(self):
        """The variables that exist before the build."""
        return [*self.head, *self.tail]

    @property
    def variables(self):
        return [*self.head, *self.slots, *self.tail]


class DeferredSlots(NamedTuple):
    """The arrays of slots that were loaded before the build. For `order`, see `Layout`."""

    order: str
    slots: list[Any]
    # Tuples (variable, old value, loaded value) of the variables that were loaded together
    # with the slots. If the slots do not fit at the build, the build warns, and each variable
    # that still has the loaded value gets its old value back. If `undo` is None, the build
    # raises an error instead.
    undo: list[Any] | None = None
    manifest: manifest_lib.Manifest | None = None


def _before_loading(deferred):
    """Return pairs (variable, old value) of variables that still have their loaded values."""
    return [
        (variable, before)
        for variable, before, loaded in (deferred and deferred.undo) or ()
        if np.array_equal(variables_lib.numpy(variable), loaded)
    ]


def _fits(arrays, variables):
    """Return whether arrays fit variables in number, shape and kind (integer or not)."""
    return len(arrays) == len(variables) and all(
        np.shape(array) == tuple(variable.shape)
        and (np.asarray(array).dtype.kind in "iub")
        == tf.as_dtype(variable.dtype).is_integer
        for array, variable in zip(arrays, variables)
    )


def _have_shapes_of(arrays, variables):
    shapes = [tuple(variable.shape) for variable in variables]
    return [np.shape(array) for array in arrays] == shapes


def _why_not(arrays, whole, untrained, weights):
    """Return the reason why the arrays of a file do not fit, or raise it as a ValueError."""
    if any(_fits(arrays, variables) for variables in untrained):
        return "It was saved before the optimizer was built."
    if any(_fits(arrays, layout.variables) for layout in weights):
        return _OF_KERAS2
    if len(arrays) != len(whole):
        return f"It has {len(arrays)} variables instead of {len(whole)}."
    for variable, array in zip(whole, arrays):
        # `array_for` raises the ValueError.
        variables_lib.array_for(variable, array)
    return "Its integers and floats are in a different order."


class State:
    """The state of one LossScaleOptimizer: its variables and its deferred slots."""

    def __init__(self, family, loss_scale, name_of_owner):
        self._family, self._loss_scale = family, loss_scale
        # This is a function, because the program may change the name of the optimizer.
        self._name_of_owner = name_of_owner
        # `deferred` is a `DeferredSlots` or None. If a restore is refused, its value is again
        # `_deferred_before`, and `_remember` undoes what `Family.forget` did.
        self.deferred = self._deferred_before = None
        self._remember = lambda: None
        # The manifest that `install.train_checkpoint` has found out for the checkpoint that
        # TensorFlow is about to restore, or None. It replaces the manifest in the checkpoint.
        self.told = None
        self._is_told = False
        # The object whose name in checkpoints is the manifest, and the object that a checkpoint
        # contains instead while slots are deferred. TensorFlow refers to them only weakly.
        self._named_by_manifest = tf_private.without_values()
        self._build_first = variables_lib.NotSaved(BUILD_FIRST)

    def own_variables(self):
        """Return the variables that `weights` of Keras 2 lacks, in the order of files."""
        (in_files, *_), _ = self.layouts()
        return in_files.variables[len(self._family.weights()) :]

    def layouts(self):
        """Return the layouts in files, and those for `set_weights`. See `Family.layouts`."""
        scale = [variable for _, variable in self._loss_scale.named_variables()]
        return self._family.layouts(scale)

    def layouts_in(self, order):
        """Return the layouts with this order. The first one contains the most variables."""
        files, weights = self.layouts()
        return [layout for layout in [*files, *weights] if layout.order == order]

    def manifest(self):
        """Return the manifest of `saved`, or None if deferred slots were loaded without one."""
        if self.deferred is None:
            if not self._family.built_variables():
                return self._family.manifest(start=0, slots=[])
            (layout, *_), _ = self.layouts()
            return self._family.manifest(len(layout.head), layout.slots)
        if self.deferred.manifest is None:
            return None
        layout = self.layouts_in(self.deferred.order)[0]
        return self.deferred.manifest._replace(start=len(layout.head))

    def saved(self, order=None):
        """Return a pair (order of the slots, list of the arrays of the whole state).

        By default, the slots have the order of new files. Deferred slots keep their own order,
        whatever `order` is. The method raises ValueError if TensorFlow waits for the build to
        restore slots from a checkpoint.
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
        """Return the arrays for a file. Raise ValueError if a file cannot contain them."""
        order, arrays = self.saved()
        if order not in [layout.order for layout in self.layouts()[0]]:
            raise ValueError(BUILD_FIRST)
        return arrays

    # --- Checkpoints. TensorFlow saves and restores the variables itself.

    def dependencies(self, children):
        """Return `children` with the manifest last, so that `forget` comes before `expect`."""
        if self.deferred is not None:
            return {**children, "tf_lso_build_first": self._build_first}
        name = manifest_lib.name_in_checkpoints(self.manifest())
        return {**children, name: self._named_by_manifest}

    def dependency(self, name):
        """Return an object if the dependency `name` of a checkpoint is the manifest, else None.

        TensorFlow calls this method for each dependency before it restores any value. The
        method raises ValueError if the checkpoint does not fit the optimizer.
        """
        if name in _IN_EVERY_CHECKPOINT:
            # The values in the checkpoint replace the deferred slots.
            self._deferred_before, self.deferred = self.deferred, None
        if name == "_variables":
            self._remember = self._family.forget()
            told, self.told = self.told, None
            self._is_told = told is not None
            if self._is_told:
                self.expect(told)
        saved = manifest_lib.from_name(name)
        if saved is None:
            return None
        if not self._is_told:
            self.expect(saved)
        return self._named_by_manifest

    def expect(self, saved):
        """Prepare to restore the checkpoint with the manifest `saved`, or raise ValueError."""
        own = self.manifest()
        try:
            manifest_comparison.check_kind(saved, own)
            if saved.is_built:
                self._family.expect(saved, own)
            elif not own.is_built:
                self._family.discard_waiting()
            elif int(variables_lib.numpy(self._family.counter())):
                self._start_again(own)
        except ValueError:
            self.deferred = self._deferred_before
            self._remember()
            raise

    def _start_again(self, own):
        (layout, *_), _ = self.layouts()
        first = {
            slot: table.first_value(self._family.inner, slot) for slot in own.names
        }
        if None in first.values():
            raise ValueError(
                "The checkpoint was saved before the first step, but this optimizer has been "
                f"trained, and the first values of its slots are unknown: "
                f"{sorted(own.names)}. Restore into a new optimizer."
            )
        arrays = [
            np.full(tuple(variable.shape), first[slot])
            for variable, (slot, _) in zip(layout.slots, own.slots)
        ]
        variables_lib.assign_all(layout.slots, arrays)
        self._family.set_iterations(0)
        log.logger().warning(
            f"The checkpoint was saved before the first step of {self._name_of_owner()}, "
            "so the slots are reset."
        )

    def keep_slots(self):
        """Return a function that restores the current slots and the current step counter."""
        (layout, *_), _ = self.layouts()
        slots = [*layout.slots] if self._family.built_variables() else []
        kept = [self._family.counter(), *slots]
        arrays = [*map(variables_lib.numpy, kept)]
        return functools.partial(variables_lib.assign_all, kept, arrays)

    # --- Before the build.

    def defer(self, arrays, layouts, *, is_file=False, manifest=None):
        """Set the variables that exist, and store the slot values until the build.

        Return whether the arrays fit one of the layouts. If they do not fit, nothing is set.
        If the arrays are those of a file and the slots do not fit at the build, the build only
        warns. The build checks a `manifest` even if the file has no slots.
        """
        variables = [layout.variables for layout in layouts]
        if manifest is None and self._set(arrays, variables):
            self.deferred = None
            return True
        for layout in layouts:
            known, start = layout.early, len(layout.head)
            end = start + len(arrays) - len(known)
            if manifest is not None:
                if start != manifest.start:
                    continue
                end = start + len(manifest.slots)
            values = [*arrays[:start], *arrays[end:]]
            has_slots = start < end or manifest is not None
            if has_slots and _fits(values, known):
                # Another file may have been loaded before, whose slots wait too.
                before = {id(v): value for v, value in _before_loading(self.deferred)}
                undo = [
                    (v, before.get(id(v), variables_lib.numpy(v)), a)
                    for v, a in zip(known, values)
                ]
                variables_lib.assign_all(known, values)
                self.deferred = DeferredSlots(
                    layout.order,
                    arrays[start:end],
                    undo if is_file else None,
                    manifest,
                )
                return True
        return False

    def set(self, arrays, layouts):
        """Set the variables. Raise ValueError unless the arrays fit exactly one layout."""
        known = [layout.variables for layout in layouts]
        fitting = [variables for variables in known if len(variables) == len(arrays)]
        shaped = [v for v in fitting if _have_shapes_of(arrays, v)]
        if not fitting or not (shaped or self._family.built_variables()):
            name, (whole, alone) = self._name_of_owner(), map(len, known[-2:])
            raise ValueError(
                f"'weights' has {len(arrays)} arrays, but {name} has "
                f"{whole} ({alone} without the loss scale). "
                "Build the optimizer first, on the same variables."
            )
        if len({tuple(map(id, variables)) for variables in shaped}) > 1:
            raise ValueError(
                f"'weights' has {len(arrays)} arrays, which may be those of a plain Keras 3 "
                "optimizer or those of Keras 2, whose orders differ. Pass the list with the "
                "loss scale that get_weights() returns, or restore a file by "
                "tf_lso.checkpoints.restore(path, model=model, optimizer=optimizer)."
            )
        variables_lib.assign_all((shaped or fitting)[0], arrays)

    def _set(self, arrays, lists):
        """Assign the arrays to the first list that they fit. Return whether they fit one."""
        variables = next((v for v in lists if _fits(arrays, v)), None)
        if variables is not None:
            variables_lib.assign_all(variables, arrays)
        return variables is not None

    # --- At the build and after it.

    def set_deferred(self):
        """Assign the deferred values to the slots, after each build of the optimizer."""
        deferred, self.deferred = self.deferred, None
        if deferred is None:
            return
        # A step in a `tf.function` may build the optimizer. Without `init_scope`, each later
        # run of the function would set the slots to the deferred values again.
        with tf.init_scope():
            try:
                self._set_slots(deferred)
            except ValueError as error:
                if deferred.undo is None:
                    # The slots may fit at the next build.
                    self.deferred = deferred
                    raise
                for variable, before in _before_loading(deferred):
                    variables_lib.assign_all([variable], [before])
                self.warn_not_loaded(error)

    def _set_slots(self, deferred):
        arrays = deferred.slots
        if deferred.manifest is not None:
            self._set_by_manifest(arrays, deferred.manifest)
            return
        built = [layout.slots for layout in self.layouts_in(deferred.order)]
        slots = next((s for s in built if len(s) == len(arrays)), None)
        if slots is None:
            raise ValueError(
                f"The state that was loaded has {len(arrays)} slots, but the optimizer has "
                f"{len(built[0])}. Use the inner optimizer and the model that were saved."
            )
        variables_lib.assign_all(slots, arrays)

    def _set_by_manifest(self, slots, saved, others=(), values=()):
        """Set the slots by the manifest `saved`, and the variables `others` to `values`."""
        (layout, *_), _ = self.layouts()
        own = self._family.manifest(len(layout.head), layout.slots)
        order = manifest_comparison.places(saved, own)
        arrays = [slots[place] for place in order]
        variables_lib.assign_all([*layout.slots, *others], [*arrays, *values])

    def load(self, arrays, manifest=None):
        """Set the state to the arrays of a file. Warn if they do not fit, as Keras does."""
        if keras_versions.is_keras2(self._family.package):
            if not arrays:
                log.logger().warning(
                    "The file contains no optimizer state, so the optimizer starts anew. "
                    "Keras 2 does not save the state of legacy optimizers, but a program that "
                    "calls tf_lso.install() does."
                )
                return
            has_scale = bool(self._loss_scale.named_variables())
            if has_scale and manifest is None and _fits(arrays, self._family.weights()):
                self.warn_no_scale("The file")
        if manifest is None:
            self._load_by_order(arrays)
            return
        try:
            manifest_comparison.check_kind(manifest, self._family.manifest(0, []))
            if manifest.is_built:
                self._load_by_manifest(arrays, manifest)
            else:
                # The file has no slots, so the manifest is not needed for their order.
                self._load_by_order(arrays)
        except ValueError as error:
            self.warn_not_loaded(error)

    def _load_by_order(self, arrays):
        layouts, weights = self.layouts()
        if not self._family.built_variables():
            if not self.defer(arrays, layouts, is_file=True):
                self.warn_not_loaded(f"It has {len(arrays)} variables.")
            return
        whole = [layout.variables for layout in layouts]
        untrained = [layout.early for layout in layouts]
        is_new = int(variables_lib.numpy(self._family.counter())) == 0
        if not self._set(arrays, [*whole, *untrained] if is_new else whole):
            self.warn_not_loaded(_why_not(arrays, whole[0], untrained, weights))

    def _load_by_manifest(self, arrays, manifest):
        files, weights = self.layouts()
        # The manifest says in which order the slots are, so the layout may be of Keras 2.
        layouts = [*files, *weights]
        start, end = manifest.start, manifest.start + len(manifest.slots)
        values = [*arrays[:start], *arrays[end:]]
        if not self._family.built_variables():
            if not self.defer(arrays, layouts, is_file=True, manifest=manifest):
                raise ValueError(_MORE_OR_FEWER.format(len(values)))
            return
        lists = [layout.early for layout in layouts if len(layout.head) == start]
        early = next((v for v in lists if _fits(values, v)), None)
        if early is None:
            raise ValueError(_MORE_OR_FEWER.format(len(values)))
        self._set_by_manifest(arrays[start:end], manifest, early, values)

    def warn_not_loaded(self, reason):
        log.logger().warning(
            "The state of the optimizer in the file does not fit "
            f"{self._name_of_owner()}, so it keeps its current state: {reason}"
        )

    def warn_no_scale(self, file):
        log.logger().warning(
            f"{file} has no loss scale for the optimizer, so it starts at "
            f"{self._loss_scale.initial_loss_scale}. Keras 2 does not save it, but a "
            "program that calls tf_lso.install() does."
        )
