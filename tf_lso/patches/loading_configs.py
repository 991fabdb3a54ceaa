"""Make Keras load optimizers and models whose configs another generation wrote.

`tf_lso.optimizers.config` reads configs that Keras refuses, and those that it would turn
into its own LossScaleOptimizer. All other configs go to Keras as before.
"""

from tf_lso import keras_configs, keras_versions
from tf_lso.optimizers import config as configs
from tf_lso.patches import loading_keras2


def is_foreign(config, is_keras2):
    """Whether a Keras needs help with what it was asked to load, of any type."""
    if not isinstance(config, dict) or not isinstance(config.get("class_name"), str):
        return False
    if configs.is_wrapper(config):
        return True
    arguments = config.get("config")
    if not arguments or not isinstance(arguments, dict):
        return False
    by_keras3 = keras_configs.written_by_keras3(config)
    if not is_keras2:
        return not by_keras3
    # Keras 2 itself finds a user's class whose config has no keys of Keras 3.
    has_its_keys = bool(keras_configs.KEYS_OF_KERAS3 & arguments.keys())
    return by_keras3 and (has_its_keys or config.get("module") == "keras.optimizers")


def deserialize_all_generations(keras, ledger):
    """Read the configs of optimizers and loss scales of all generations."""
    package = keras_versions.package_of(keras)
    is_keras2 = keras_versions.is_keras2(package)

    @ledger.around(keras.optimizers, "deserialize")
    def deserialize(original, config, custom_objects=None, *args, **kwargs):
        if is_foreign(config, is_keras2):
            return configs.deserialize(config, custom_objects, package)
        config = keras_configs.plain(config)  # a copy, since Keras changes it
        return original(config, custom_objects, *args, **kwargs)


# Keras 2 writes None for its defaults, which Keras 3 does not take.
_KERAS_2 = [(k, None) for k in ("steps_per_execution", "run_eagerly", "jit_compile")]


def compile_all_generations(keras, ledger):
    """Read optimizers of every generation in `load_model` of .keras files, too."""
    package = keras_versions.package_of(keras)
    is_keras2 = keras_versions.is_keras2(package)

    @ledger.around(keras.Model, "compile_from_config")
    def compile_from_config(original, self, config):
        optimizer = (config or {}).get("optimizer")
        if is_foreign(optimizer, is_keras2):
            made = configs.deserialize(optimizer, package=package)
            today = keras_versions.serialize_keras_object(package)(made)
            config = {**config, "optimizer": today}
        if config and config.get("steps_per_execution", 1) is None:
            config = {k: v for k, v in config.items() if (k, v) not in _KERAS_2}
        original(self, config)
        if is_keras2:
            loading_keras2.build_optimizers(self)
