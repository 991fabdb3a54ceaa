"""Make Keras 3 load wrapped optimizers and dtype policies from files of Keras 2.

Keras 3 cannot compile a model from an .h5 file that contains the name of a loss or of a metric
(keras#19330), not even from its own files. So this module compiles models with a wrapped
optimizer itself.
"""

import contextlib
import json
import zipfile

import h5py

from tf_lso.checkpoints import restoring
from tf_lso.checkpoints.source import CheckpointError
from tf_lso.frameworks import keras_versions, log
from tf_lso.install.loading_configs import holds_wrapper
from tf_lso.install.loading_keras2 import is_ours, refuse_waiting, write_manifest
from tf_lso.optimizers import state as state_lib

# Class names of dtype policies in files of TensorFlow 2.1-2.15. `PolicyV1` is the name of
# the experimental policy in files of 2.4-2.8.
POLICIES = ("Policy", "PolicyV1")


def load_models(keras, ledger):
    """Load models of TensorFlow 2.0-2.15 with the state of their wrapped optimizers."""

    @ledger.around(keras.models, "load_model")
    def load_model(
        original, filepath, custom_objects=None, compile=True, *args, **kwargs
    ):
        training = _training_config(filepath) if compile else None
        if training is not None:
            # Keras 3.0 ignores `custom_objects` for .h5 files (keras#19330).
            with keras.saving.custom_object_scope(custom_objects or {}):
                model = original(filepath, custom_objects, False, *args, **kwargs)
                _compile(keras, model, training)
            _restore_optimizer(model, filepath)
            return model
        of_keras2 = _is_of_keras2(filepath)
        with state_lib.state_follows.on() if of_keras2 else contextlib.nullcontext():
            model = original(filepath, custom_objects, compile, *args, **kwargs)
        if of_keras2:
            _restore_optimizer(model, filepath)
        return model


def _training_config(path):
    """Return how the model in an .h5 file with a `LossScaleOptimizer` was compiled, or None."""
    if not _is_h5(path):
        return None
    try:
        with h5py.File(path, "r") as file:
            training = json.loads(file.attrs["training_config"])
    except (OSError, ValueError, KeyError):
        # Keras handles files that cannot be read, and those without an optimizer.
        return None
    return training if holds_wrapper(training.get("optimizer_config")) else None


def _compile(keras, model, training):
    model.compile(
        keras.optimizers.deserialize(training["optimizer_config"]),
        _from_config(keras.losses, training.get("loss")),
        loss_weights=training.get("loss_weights"),
        metrics=_from_config(keras.metrics, training.get("metrics")),
        weighted_metrics=_from_config(keras.metrics, training.get("weighted_metrics")),
    )


def _from_config(module, config):
    """Return the losses or metrics that a config describes. Names stay names."""
    if isinstance(config, list):
        return [_from_config(module, item) for item in config]
    if not isinstance(config, dict):
        return config
    if "class_name" not in config:
        return {key: _from_config(module, item) for key, item in config.items()}
    function = (config.get("config") or {}).get("fn")
    if config["class_name"] == "MeanMetricWrapper" and isinstance(function, str):
        # Keras 2 saved a metric that was given by its name as this class and the name of a
        # function. Keras 3 would call the name.
        arguments = {key: config["config"].get(key) for key in ("name", "dtype")}
        return module.MeanMetricWrapper(_function(module, function), **arguments)
    return module.deserialize(config)


def _function(module, name):
    found = getattr(module, name, None)
    return found if callable(found) else module.get(name)


def save_in_h5(keras, ledger):
    """Make .h5 files say to which variables the slots of wrapped optimizers belong."""
    path = "legacy.saving.legacy_h5_format"
    legacy_h5_format = keras_versions.private("keras", path)

    @ledger.around(legacy_h5_format, "save_optimizer_weights_to_hdf5_group")
    def save_optimizer(original, hdf5_group, optimizer):
        refuse_waiting(optimizer)
        original(hdf5_group, optimizer)
        if is_ours(optimizer):
            write_manifest(hdf5_group, optimizer)


class _LegacyPolicy:
    """Makes policies for Keras 3 from the configs of policies of TensorFlow 2.1-2.15."""

    @classmethod
    def from_config(cls, config):
        """Return a policy of Keras 3, or tf_lso's policy if the config has a loss scale."""
        from tf_lso import policies

        api = policies.for_package("keras")
        if "loss_scale" in config:
            return api.ExperimentalPolicy.from_config(config)
        # In TensorFlow 2.1 and 2.2 the default policy had one of these names.
        if config["name"] in ("infer", "_infer"):
            return api.global_policy()
        return api.Policy(config["name"])


def find_policies(keras, ledger):
    """Make Keras load the dtype policies of TensorFlow 2.1-2.15."""
    registered = keras.saving.get_custom_objects()
    for name in POLICIES:
        if name not in registered:
            ledger.set_item(registered, name, _LegacyPolicy)
    if not hasattr(keras.dtype_policies, "deserialize"):
        # Keras 3.0 has no function that loads a policy from a config.
        return

    # The configs of TensorFlow 2.12-2.15 also name the module of the class. Keras 3 would
    # search this module and not the custom objects, so pass only the name of the class.
    @ledger.around(keras.dtype_policies, "deserialize")
    def deserialize(original, config, custom_objects=None):
        if isinstance(config, dict) and config.get("class_name") in POLICIES:
            config = {"class_name": config["class_name"], "config": config["config"]}
        return original(config, custom_objects)


def _is_h5(path):
    return str(path).endswith((".h5", ".hdf5"))


def _is_of_keras2(path):
    """Return whether TensorFlow 2.0-2.15 or tf_keras wrote a file."""
    try:
        if _is_h5(path):
            with h5py.File(path, "r") as file:
                version = file.attrs.get("keras_version", "")
        else:
            with zipfile.ZipFile(path) as file:
                version = json.loads(file.read("metadata.json"))["keras_version"]
    except (OSError, TypeError, ValueError, KeyError, zipfile.BadZipFile):
        # Keras will raise an error that says why the file cannot be read.
        return False
    return (version.decode() if isinstance(version, bytes) else version)[:2] == "2."


def _restore_optimizer(model, path):
    # Files of Keras 2 have other names for the variables, in another order.
    optimizer = getattr(model, "optimizer", None)
    if is_ours(optimizer) and model.built:
        try:
            report = restoring.restore(path, model=model, optimizer=optimizer)
        except CheckpointError as error:
            what = "The optimizer starts without its saved state: %s"
            log.logger().warning(what, error)
        else:
            if any("no loss scale" in why for _, why in report.kept):
                optimizer._state.warn_no_scale(path)
