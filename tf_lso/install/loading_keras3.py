"""Make Keras 3 load wrapped optimizers and dtype policies from files of Keras 2.

Keras 3 still refuses other contents of these files, such as the name of a loss in an .h5
file.
"""

import contextlib
import json
import os
import zipfile

import h5py

from tf_lso.checkpoints import restoring
from tf_lso.checkpoints.source import CheckpointError
from tf_lso.frameworks import keras3_private, log
from tf_lso.install.loading_keras2 import is_ours
from tf_lso.optimizers import state as state_lib

# Class names of dtype policies in files of TensorFlow 2.1-2.15. `PolicyV1` is the name of
# the experimental policy in files of 2.4-2.8.
POLICIES = ("Policy", "PolicyV1")


def load_models(keras, ledger):
    """Load models of TensorFlow 2.0-2.15 with the state of their wrapped optimizers."""

    @ledger.around(keras.models, "load_model")
    def load_model(original, filepath, custom_objects=None, *args, **kwargs):
        is_h5, of_keras2 = _is_h5(filepath), _is_of_keras2(filepath)
        with contextlib.ExitStack() as stack:
            if is_h5:
                # Keras 3.0 ignores the argument `custom_objects` for .h5 files. So pass the
                # custom objects by a scope.
                scope = keras.saving.custom_object_scope(custom_objects or {})
                stack.enter_context(scope)
            if of_keras2:
                stack.enter_context(state_lib.state_follows.on())
            model = original(filepath, custom_objects, *args, **kwargs)
        if is_h5:
            _build_optimizer(model)
        if of_keras2:
            _restore_optimizer(model, filepath)
        return model


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
        # Keras 3.0 has no function that loads a policy from a config, so there is nothing
        # more to change.
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
    if not isinstance(path, (str, os.PathLike)):
        # `path` is an open file. Do not read the file, because this would move its position.
        return False
    try:
        if _is_h5(path):
            with h5py.File(path, "r") as file:
                version = file.attrs.get("keras_version", "")
        else:
            with zipfile.ZipFile(path) as file:
                version = json.loads(file.read("metadata.json"))["keras_version"]
    except (OSError, TypeError, ValueError, KeyError, zipfile.BadZipFile):
        # The file cannot be read. Keras will raise an error that says why.
        return False
    return (version.decode() if isinstance(version, bytes) else version)[:2] == "2."


def _restore_optimizer(model, path):
    # Keras 3 itself cannot load the optimizer's state from a file of Keras 2, because the file
    # has other names for the variables and another order of the variables.
    optimizer = getattr(model, "optimizer", None)
    if is_ours(optimizer) and model.built:
        with _telling(CheckpointError):
            report = restoring.restore(path, model=model, optimizer=optimizer)
            if any("no loss scale" in why for _, why in report.kept):
                optimizer._state.warn_no_scale(path)


def _build_optimizer(model):
    """Build the wrapped optimizer of a loaded model.

    Keras 3 may have marked the optimizer as built although it has no variables yet.
    """
    optimizer = getattr(model, "optimizer", None)
    if not is_ours(optimizer):
        return
    for part in (optimizer, optimizer.inner_optimizer):
        if part.built and not keras3_private.built_variables(part):
            part.built = False
    if model.built and not optimizer.built:
        # `build` raises ValueError if the saved state does not match the new variables. In
        # this case log a warning, and start without the saved state.
        with _telling(ValueError):
            optimizer.build(model.trainable_variables)


@contextlib.contextmanager
def _telling(kind):
    try:
        yield
    except kind as error:
        log.logger().warning("The optimizer starts without its saved state: %s", error)
