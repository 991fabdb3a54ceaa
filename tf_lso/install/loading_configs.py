"""Make Keras load a LossScaleOptimizer from a config of any version of the API.

Without this change Keras refuses such a config, or makes its own LossScaleOptimizer.
"""

from tf_lso.frameworks import keras_versions
from tf_lso.optimizers import config as configs


def holds_wrapper(config):
    """Return whether `config`, an object of any type, describes a LossScaleOptimizer."""
    is_config = isinstance(config, dict) and isinstance(config.get("class_name"), str)
    return is_config and configs.is_wrapper(config)


def deserialize_all_generations(keras, ledger):
    """Make `deserialize` return tf_lso's optimizer for each LossScaleOptimizer config."""
    package = keras_versions.package_of(keras)

    @ledger.around(keras.optimizers, "deserialize")
    def deserialize(original, config, custom_objects=None, *args, **kwargs):
        if holds_wrapper(config):
            return configs.deserialize(config, custom_objects, package)
        return original(config, custom_objects, *args, **kwargs)


# Arguments of `compile` for which Keras 2 saves None, which Keras 3 refuses.
_DEFAULTS_OF_KERAS_2 = ("steps_per_execution", "run_eagerly", "jit_compile")


def compile_all_generations(keras, ledger):
    """Make `load_model` load any LossScaleOptimizer in a .keras file as tf_lso's optimizer."""
    package = keras_versions.package_of(keras)

    @ledger.around(keras.Model, "compile_from_config")
    def compile_from_config(original, self, config):
        optimizer = (config or {}).get("optimizer")
        if holds_wrapper(optimizer):
            made = configs.deserialize(optimizer, package=package)
            today = keras_versions.serialize_keras_object(package)(made)
            config = {**config, "optimizer": today}
            for name in _DEFAULTS_OF_KERAS_2:
                if config.get(name, 1) is None:
                    del config[name]
        original(self, config)
