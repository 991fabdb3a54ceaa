"""Make Keras load optimizers and models whose configs another generation wrote.

`keras.optimizers.deserialize`, `keras.optimizers.get` and `load_model` call
`tf_lso.optimizers.configs.wrappers` for configs that Keras refuses, and for those that it
would turn into its own LossScaleOptimizer. All other configs go to Keras as before.
"""

import functools

from tf_lso.keras_patches import loading_models, loading_tf_keras
from tf_lso.optimizers.configs import inner as inner_configs
from tf_lso.optimizers.configs import wrappers as configs


def is_foreign(config, family):
    """Whether a Keras needs help with what it was asked to load, of any type."""
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


def _deserializer(ledger, original, family):
    """`deserialize` of a Keras for configs of all generations."""

    def deserialize(config, custom_objects=None, *args, **kwargs):
        # The name may have been copied while this was enabled.
        if ledger.is_open and is_foreign(config, family):
            return configs.deserialize(config, custom_objects, family)
        config = inner_configs.plain(config)  # a copy, since Keras changes it
        return original(config, custom_objects, *args, **kwargs)

    return deserialize


def _patch_deserialize(keras, ledger, family):
    original = keras.optimizers.deserialize
    loading_models.replace(ledger, original, _deserializer(ledger, original, family))


_DEFAULTS = [(k, None) for k in ("steps_per_execution", "run_eagerly", "jit_compile")]


def _patch_compile_from_config(keras, ledger, family):
    # `load_model` of .keras files.
    (owner,) = [c for c in keras.Model.__mro__ if "compile_from_config" in vars(c)][-1:]
    original = vars(owner)["compile_from_config"]

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

    ledger.replace(owner, "compile_from_config", compile_from_config)


def _patches(family, files):
    """The patches of one Keras: those that configs need, and those of its files."""
    return (
        functools.partial(_patch_deserialize, family=family),
        functools.partial(_patch_compile_from_config, family=family),
        *files.PATCHES,
    )


PATCHES = {
    "keras": _patches("keras3", loading_models),
    "tf_keras": _patches("tf_keras", loading_tf_keras),
}
