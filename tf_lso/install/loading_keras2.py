"""Make Keras 2 save and load the complete state of wrapped optimizers with whole models.

Without these changes, some of this state is missing in .h5 files, in SavedModels, and in
.keras files with legacy optimizers. Files that Keras 2 wrote without these changes load as
before.
"""

import contextlib
import os

import h5py
import numpy as np
import tensorflow as tf

from tf_lso.checkpoints import h5
from tf_lso.checkpoints.layouts import OWN_GROUP
from tf_lso.frameworks import file_stores, keras_versions
from tf_lso.frameworks import layers as layers_lib
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import loss_scale_optimizer as optimizers
from tf_lso.optimizers import manifest as manifest_lib
from tf_lso.optimizers import state as state_lib


def _private(keras, path):
    return keras_versions.private(keras_versions.package_of(keras), path)


def is_ours(optimizer):
    return isinstance(optimizer, optimizers.LossScaleOptimizer)


def save_in_keras_files(keras, ledger):
    """Make .keras and .weights.h5 files contain all state of wrapped legacy optimizers.

    Keras saves only objects that its function `_is_keras_trackable` accepts. The other two
    functions are changed so that the file and the optimizer have the same slots in the same
    order. Keras also calls them when a program copies or pickles a model.
    """
    saving_lib = _private(keras, "saving.saving_lib")

    @ledger.around(saving_lib, "_is_keras_trackable")
    def is_keras_trackable(original, obj):
        return is_ours(obj) or original(obj)

    @ledger.around(saving_lib, "_save_state")
    def save_state(original, trackable, *args, **kwargs):
        _order_slots(trackable)
        original(trackable, *args, **kwargs)

    @ledger.around(saving_lib, "_load_state")
    def load_state(original, trackable, *args, **kwargs):
        # A file contains the slots of all weights as a list without names, but a legacy
        # optimizer creates no slots for weights without a gradient.
        for optimizer, variables in _optimizers_of(trackable):
            if variables and optimizer._family.name == "legacy":
                optimizer.build(variables)
        original(trackable, *args, **kwargs)


def _optimizers_of(model):
    """Yield a pair (optimizer, variables) for each wrapped optimizer of a built model.

    For the optimizer that was passed to `compile`, `variables` are all trainable variables of
    the model. For another optimizer, `variables` are the trainable variables for which this
    optimizer was built.
    """
    attributes = vars(model) if getattr(model, "built", False) else {}
    for name, optimizer in list(attributes.items()):
        if is_ours(optimizer):
            variables = model.trainable_variables
            if name != "optimizer":
                known = {id(v) for v in optimizer._family.built_variables()}
                variables = [v for v in variables if id(v) in known]
            yield optimizer, variables


def _order_slots(model):
    """Sort the slots of a model's wrapped optimizers into the order of files."""
    for optimizer, variables in _optimizers_of(model):
        optimizer._family.order_slots(optimizer, variables)


def build_optimizers(model):
    """Build the wrapped optimizers of a loaded model. Keras 2 builds no legacy optimizers."""
    for optimizer, variables in _optimizers_of(model):
        family = optimizer._family
        if variables and not family.built_variables():
            optimizer.build(variables)


def save_in_h5(keras, ledger):
    """Make .h5 files contain the slots, the loss scale and the count of finite steps."""
    hdf5_format = _private(keras, "saving.legacy.hdf5_format")

    @ledger.around(hdf5_format, "save_optimizer_weights_to_hdf5_group")
    def save_optimizer(original, hdf5_group, optimizer):
        refuse_waiting(optimizer)
        original(hdf5_group, optimizer)
        if is_ours(optimizer):
            group = hdf5_group.create_group(OWN_GROUP)
            for index, variable in enumerate(optimizer._state.own_variables()):
                group[str(index)] = variables_lib.numpy(variable)
            write_manifest(hdf5_group, optimizer)

    @ledger.around(hdf5_format, "save_model_to_hdf5")
    def save_model(original, model, *args, **kwargs):
        _order_slots(model)
        original(model, *args, **kwargs)

    @ledger.around(hdf5_format, "load_model_from_hdf5")
    def load_model(original, filepath, *args, **kwargs):
        with _opened(filepath) as file:
            manifest = h5.manifest_of(file)
        # Keras would set the weights of the optimizer by their order.
        with state_lib.state_follows.on() if manifest else contextlib.nullcontext():
            model = original(filepath, *args, **kwargs)
        optimizer = getattr(model, "optimizer", None)
        if is_ours(optimizer):
            with _opened(filepath) as file:
                # Keras's `load_model` passes a GFile, whose attribute is `name`.
                name = getattr(
                    filepath, "filename", getattr(filepath, "name", filepath)
                )
                _load_own(file, optimizer, name, manifest)
        return model


def refuse_waiting(optimizer):
    """Raise ValueError if restored slots wait for the build, since a file would lack them."""
    if is_ours(optimizer) and optimizer._family.slots_wait():
        raise ValueError(state_lib.BUILD_FIRST)


def write_manifest(file, optimizer):
    """Store the manifest of an optimizer in an .h5 file that contains its weights."""
    manifest = optimizer._state.manifest()
    if manifest is not None and manifest.is_built and h5.WEIGHTS in file:
        text = manifest_lib.to_json(manifest)
        file_stores.write_text(file[h5.WEIGHTS], manifest_lib.NAME, text)


def _opened(path):
    if isinstance(path, h5py.File):
        return contextlib.nullcontext(path)
    return h5py.File(path, "r")


def _load_own(file, optimizer, name, manifest):
    own = optimizer._state.own_variables()
    group = file.get(OWN_GROUP, ())
    if len(group) != len(own):
        optimizer._state.warn_no_scale(name)
        return
    arrays = [np.array(group[str(i)]) for i in range(len(group))]
    if manifest is None:
        variables_lib.assign_all(own, arrays)
    else:
        weights = h5.weights_of(file, name)
        optimizer._state.load([*weights, *arrays], manifest)


def _name_by_layers(model):
    """Give the variables of a loaded model the names of their layers, for the manifest.

    Under a strategy with several replicas, Keras 2 loads the variables without these names.
    """
    for layer in layers_lib.all_layers(model):
        for variable in layers_lib.own_variables(layer):
            name = manifest_lib.path_of(variable)
            if "/" not in name:
                variable.path = f"{layer.name}/{name}"


def restore_saved_models(keras, ledger):
    """Make SavedModels restore the slots, the loss scale and the count of finite steps."""

    @ledger.around(_private(keras, "saving.legacy.saved_model.load"), "load")
    def load(original, path, *args, **kwargs):
        model = original(path, *args, **kwargs)
        optimizer = getattr(model, "optimizer", None)
        if is_ours(optimizer):
            _name_by_layers(model)
            build_optimizers(model)
            variables = os.path.join(path, "variables", "variables")
            # TensorFlow finds each slot through its model variable, so the model is read too.
            try:
                status = tf.train.Checkpoint(model).read(variables)
            except ValueError as error:
                # The program had frozen a layer after the build, for instance.
                optimizer._state.warn_not_loaded(error)
                return model
            # A file has no slots if the model was saved before the first step, and files of
            # a legacy optimizer have none for weights without a gradient.
            steps = int(variables_lib.numpy(optimizer._family.counter()))
            if steps and optimizer._family.name != "legacy":
                status.assert_existing_objects_matched()
            status.expect_partial()
        return model
