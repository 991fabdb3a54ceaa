"""Make Keras 2 save and load all state of wrapped optimizers with whole models.

Without these patches .h5 files, SavedModels, and .keras files with legacy optimizers lack
some state. Each patch takes (keras, ledger) and handles one format. Files that Keras 2
wrote without them load as before.
"""

import importlib
import os

import h5py
import numpy as np
import tensorflow as tf

from tf_lso import kerases
from tf_lso import variables as variables_lib
from tf_lso.checkpoints.layouts import OWN_GROUP
from tf_lso.optimizers import config as configs
from tf_lso.optimizers import experimental
from tf_lso.optimizers import loss_scale_optimizer as optimizers
from tf_lso.patches import loading_models


def _private(keras, path):
    return kerases.private(kerases.package_of(keras), path)


def _is_ours(optimizer):
    return isinstance(optimizer, optimizers.LossScaleOptimizer)


def _is_legacy(optimizer):
    return _is_ours(optimizer) and optimizer._family.name == "legacy"


def patch_keras_files(keras, ledger):
    """Make .keras and .weights.h5 files hold wrapped legacy optimizers."""
    # This is for .keras and .weights.h5 files, and for deepcopy and pickle of models. They
    # save only objects that this function knows. It does not know legacy optimizers.
    saving_lib = _private(keras, "saving.saving_lib")
    original = saving_lib._is_keras_trackable

    def is_keras_trackable(obj):
        return _is_ours(obj) or original(obj)

    loading_models.replace(ledger, original, is_keras_trackable)
    befores = {
        saving_lib._save_state: _order_slots,
        saving_lib._load_state: _make_slots,
    }
    for function, before in befores.items():

        def with_slots(trackable, *args, function=function, before=before, **kwargs):
            before(trackable)
            function(trackable, *args, **kwargs)

        loading_models.replace(ledger, function, with_slots)


def _optimizers_of(model):
    """Return (optimizer, its variables) of the wrapped ones of a model that is built.

    The one that `compile` got has slots of all trainable variables, another has those of
    the variables that it was built for.
    """
    if not getattr(model, "built", False):
        return []
    found = {n: o for n, o in getattr(model, "__dict__", {}).items() if _is_ours(o)}
    pairs = []
    for name, optimizer in found.items():
        variables = model.trainable_variables
        if name != "optimizer":
            known = {id(v) for v in optimizer._family.built_variables()}
            variables = [v for v in variables if id(v) in known]
        pairs.append((optimizer, variables))
    return pairs


def _make_waiting_slots(model):
    """Make the slots of a checkpoint that was restored before the build."""
    for optimizer, variables in _optimizers_of(model):
        if optimizer._family.slots_wait():
            optimizer.build(variables)


def _order_slots(model):
    """Order the slots as files of a model have them, whatever steps have made them."""
    _make_waiting_slots(model)
    for optimizer, variables in _optimizers_of(model):
        optimizer._family.order_slots(optimizer, variables)


def _make_slots(model):
    """Make slots of all weights, also of those without a gradient, before a file is loaded.

    Legacy optimizers make none of these. Files are lists that do not say whose slots they
    hold, and have those of all.
    """
    for optimizer, variables in _optimizers_of(model):
        if variables and optimizer._family.name == "legacy":
            optimizer.build(variables)


def build_optimizers(model):
    """Build the optimizer of a loaded model; Keras 2 does not build legacy ones."""
    for optimizer, variables in _optimizers_of(model):
        family = optimizer._family
        if variables and (not family.built_variables() or family.is_built_in_parts):
            optimizer.build(variables)


def patch_h5(keras, ledger):
    """Make .h5 files hold the loss scale and its count."""
    hdf5_format = _private(keras, "saving.legacy.hdf5_format")
    save = hdf5_format.save_optimizer_weights_to_hdf5_group

    def save_optimizer_weights_to_hdf5_group(hdf5_group, optimizer):
        save(hdf5_group, optimizer)
        if _is_ours(optimizer):
            group = hdf5_group.create_group(OWN_GROUP)
            for index, variable in enumerate(optimizer._state.own_variables()):
                group[str(index)] = variables_lib.numpy(variable)

    save_model = hdf5_format.save_model_to_hdf5

    def save_model_to_hdf5(model, *args, **kwargs):
        _order_slots(model)
        save_model(model, *args, **kwargs)

    load = hdf5_format.load_model_from_hdf5

    def load_model_from_hdf5(filepath, *args, **kwargs):
        model = load(filepath, *args, **kwargs)
        optimizer = getattr(model, "optimizer", None)
        if _is_ours(optimizer):
            if isinstance(filepath, h5py.File):
                _load_own(filepath, optimizer, filepath.filename)
            else:
                with h5py.File(filepath, "r") as file:
                    # `load_model` passes a GFile.
                    _load_own(file, optimizer, getattr(filepath, "name", filepath))
        return model

    loading_models.replace(ledger, save, save_optimizer_weights_to_hdf5_group)
    loading_models.replace(ledger, save_model, save_model_to_hdf5)
    loading_models.replace(ledger, load, load_model_from_hdf5)


def _load_own(file, optimizer, name):
    own = optimizer._state.own_variables()
    arrays = [
        np.array(file[OWN_GROUP][str(i)]) for i in range(len(file.get(OWN_GROUP, ())))
    ]
    if len(arrays) == len(own):
        variables_lib.assign_all(own, arrays)
    else:
        optimizer._state.tell_no_scale(name)


def patch_metadata(keras, ledger):
    """Make .h5 files and SavedModels say that an optimizer is experimental."""
    # The class name does not say it. It is the name of the stable class, so that Keras 2
    # without tf_lso can read the files too.
    saving_utils = _private(keras, "saving.legacy.saving_utils")
    original = saving_utils.model_metadata

    def model_metadata(model, *args, **kwargs):
        metadata = original(model, *args, **kwargs)
        config = metadata.get("training_config", {}).get("optimizer_config")
        if config and isinstance(model.optimizer, experimental.LossScaleOptimizer):
            config.update(configs.IS_EXPERIMENTAL)
        return metadata

    loading_models.replace(ledger, original, model_metadata)


def patch_saved_model(keras, ledger):
    """Make SavedModels restore the optimizer's slots, the loss scale and its count."""
    loader = _private(keras, "saving.legacy.saved_model.load")
    original = loader.load

    def load(path, *args, **kwargs):
        model = original(path, *args, **kwargs)
        if _is_ours(getattr(model, "optimizer", None)):
            build_optimizers(model)
            variables = os.path.join(path, "variables", "variables")
            # With the model, since TensorFlow finds slots by their variables.
            status = tf.train.Checkpoint(model).read(variables)
            # A model that was saved before its first step has no slots, and one with a
            # legacy optimizer none of weights without a gradient. They stay as made.
            counter = variables_lib.numpy(model.optimizer._family.counter())
            if int(counter) and not _is_legacy(model.optimizer):
                status.assert_existing_objects_matched()
            status.expect_partial()
        return model

    saver = _private(keras, "saving.legacy.saved_model.save")
    save_model = saver.save

    def save(model, *args, **kwargs):
        _make_waiting_slots(model)
        save_model(model, *args, **kwargs)

    # Only in these modules: others have different functions of these names.
    ledger.replace(loader, "load", load)
    ledger.replace(saver, "save", save)


def patch_compile_in_graphs(keras, ledger):
    """Make `compile` in a graph of TensorFlow 1 accept a wrapped optimizer as it is.

    Keras 2 knows only its own first wrapper class there, and would wrap ours again.
    """
    module = importlib.import_module(f"{keras.Model.__module__}_v1")
    original = vars(module.Model)["_set_optimizer"]

    def set_optimizer(self, optimizer):
        if _is_ours(optimizer):
            self.optimizer = optimizer
        else:
            original(self, optimizer)

    ledger.replace(module.Model, "_set_optimizer", set_optimizer)


def patch_conversion(keras, ledger):
    """Make Keras 2 convert wrapped newer optimizers to wrapped legacy ones."""
    original = keras.__internal__.optimizers.convert_to_legacy_optimizer

    def convert_to_legacy_optimizer(optimizer):
        if not _is_ours(optimizer) or isinstance(
            optimizer, keras.optimizers.legacy.Optimizer
        ):
            return original(optimizer)
        config = optimizer.get_config()
        key = "inner_optimizer" if "inner_optimizer" in config else "optimizer"
        config[key] = original(optimizer.inner_optimizer)
        return configs.unbound(type(optimizer)).from_config(config)

    loading_models.replace(ledger, original, convert_to_legacy_optimizer)


PATCHES = (
    patch_keras_files,
    patch_h5,
    patch_metadata,
    patch_saved_model,
    patch_conversion,
    patch_compile_in_graphs,
)
