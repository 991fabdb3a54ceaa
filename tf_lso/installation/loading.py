"""Make Keras load optimizers and models whose configs another generation wrote.

`keras.optimizers.deserialize`, `keras.optimizers.get` and `load_model` use
`tf_lso.optimizers.configs` for configs that Keras itself would refuse, or make its own
LossScaleOptimizer from. All other configs go to Keras as before.
"""

import functools
import threading

from tf_lso import log
from tf_lso.installation import ledger as ledger_lib
from tf_lso.installation import loading_models, loading_tf_keras
from tf_lso.optimizers import configs, inner_configs

_lock = threading.RLock()
_enabled = {}  # module name of a Keras -> the ledger of its patches


def is_foreign(config, family):
    """Whether a Keras needs help with the config of an optimizer.

    Args:
      config: what the Keras was asked to load, of any type.
      family: "keras3" or "tf_keras".
    """
    if not isinstance(config, dict) or not isinstance(config.get("class_name"), str):
        return False
    if configs.is_wrapper(config):
        return True
    if not config.get("config") or not isinstance(config["config"], dict):
        return False
    by_keras3 = inner_configs.written_by_keras3(config)
    if family == "keras3":
        return not by_keras3
    # tf_keras itself finds a user's class whose config has no keys of Keras 3.
    has_its_keys = inner_configs.KEYS_OF_KERAS3 & config["config"].keys()
    return by_keras3 and bool(
        has_its_keys or config.get("module") == "keras.optimizers"
    )


def _deserializer(keras, original, family):
    """Return a `deserialize` for configs of all generations."""

    @functools.wraps(original)
    def deserialize(config, custom_objects=None, *args, **kwargs):
        # A program may have copied this function and call it after `disable`.
        if keras.__name__ in _enabled and is_foreign(config, family):
            return configs.deserialize(config, custom_objects, family)
        config = inner_configs.plain(config)  # a copy, since Keras changes it
        return original(config, custom_objects, *args, **kwargs)

    return deserialize


def _patch_deserialize(keras, ledger, family):
    original = keras.optimizers.deserialize
    loading_models.replace(ledger, original, _deserializer(keras, original, family))


_DEFAULTS = [(k, None) for k in ("steps_per_execution", "run_eagerly", "jit_compile")]


def _patch_compile_from_config(keras, ledger, family):
    # `load_model` of .keras files.
    (owner,) = [c for c in keras.Model.__mro__ if "compile_from_config" in vars(c)][-1:]
    original = vars(owner)["compile_from_config"]

    @functools.wraps(original)
    def compile_from_config(self, config):
        optimizer = (config or {}).get("optimizer")
        if is_foreign(optimizer, family):
            made = configs.deserialize(optimizer, family=family)
            today = keras.saving.serialize_keras_object(made)
            config = {**config, "optimizer": today}
            # TensorFlow 2.12-2.15 wrote None for the default.
            config = {k: v for k, v in config.items() if (k, v) not in _DEFAULTS}
        original(self, config)
        if family == "tf_keras":
            loading_tf_keras.build_optimizer(self)

    ledger.set_attribute(owner, "compile_from_config", compile_from_config)


def enable(keras):
    """Make a Keras load configs and models of all generations.

    Args:
      keras: the module `keras` or `tf_keras`.

    Returns:
      False if this was enabled already.
    """
    family = "keras3" if keras.__name__ == "keras" else "tf_keras"
    with _lock:
        if keras.__name__ in _enabled:
            return False
        ledger = ledger_lib.Ledger()
        _patch_deserialize(keras, ledger, family)
        _patch_compile_from_config(keras, ledger, family)
        files = loading_models if family == "keras3" else loading_tf_keras
        for patch in files.PATCHES:
            patch(keras, ledger)
        _enabled[keras.__name__] = ledger
        log.logger().debug("tf_lso helps %s to load optimizers", keras.__name__)
        return True


def disable(keras):
    """Make a Keras load as it did before `enable`."""
    with _lock:
        ledger = _enabled.pop(keras.__name__, None)
        if ledger is not None:
            ledger.undo()
