"""Restore what Keras 2 had or did in an earlier TensorFlow, for `install(like=...)`.

Today's Keras 2 is the Keras of TensorFlow 2.15.
"""

import contextlib
import importlib
import os
import types

from tf_lso.frameworks import keras_versions, tf_private
from tf_lso.install import like
from tf_lso.optimizers import experimental
from tf_lso.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tf_lso.scaling import loss_scale_configs

# Maps each version of TensorFlow to the value of `tf.keras.__version__`. TensorFlow
# 2.1.1-2.1.4 had the value 2.3.0-tf, but programs of that time were written for 2.1.0.
KERAS_VERSIONS = {
    (2, 0): "2.2.4-tf",
    (2, 1): "2.2.4-tf",
    (2, 2): "2.3.0-tf",
    (2, 3): "2.4.0",
    (2, 4): "2.4.0",
    **{(2, minor): f"2.{minor}.0" for minor in range(5, 13)},
    (2, 13): "2.13.1",
    (2, 14): "2.14.0",
    (2, 15): "2.15.0",
}


def say_version(keras, ledger):
    """Set `tf.keras.__version__` to the value that it had in the earlier TensorFlow."""
    version = KERAS_VERSIONS[like.parsed(os.environ[like.VARIABLE])]
    package = keras_versions.package_of(keras)
    modules = like.public_modules(package)
    # TensorFlow 2.12-2.15 copy the public names of Keras, such as `__version__`, into these two
    # modules.
    for name in ("tensorflow.compat.v1.keras", "tensorflow.compat.v2.keras"):
        with contextlib.suppress(ImportError):
            modules.append(importlib.import_module(name))
    for module in modules:
        # tf_lso reads `__version__` of the Keras package itself to find out which Keras is
        # installed.
        if module.__name__ != package:
            ledger.set_attribute(module, "__version__", version)


def log_first_replica(keras, ledger):
    """Make `fit` and `evaluate` log the values of the first replica.

    Since TensorFlow 2.11 `fit` and `evaluate` log the sum of the values of all replicas. If
    a program sets `distribute_reduction_method`, Keras respects this setting.
    """

    @ledger.around(keras.Model, "distribute_reduction_method")
    def first_by_default(original, self):
        method = original(self)
        return "first" if method == "auto" else method


def _predict_proba(self, x, batch_size=32, verbose=0):
    return self.predict(x, batch_size=batch_size, verbose=verbose)


def _predict_classes(self, x, batch_size=32, verbose=0):
    """Return the most likely class of each sample. With one output, return 0 or 1."""
    predicted = self.predict(x, batch_size=batch_size, verbose=verbose)
    if predicted.shape[-1] > 1:
        return predicted.argmax(axis=-1)
    return (predicted > 0.5).astype("int32")


def predict_classes(keras, ledger):
    """Add `predict_classes` and `predict_proba` to `Sequential`, as in TensorFlow 2.0-2.5."""
    methods = {"predict_classes": _predict_classes, "predict_proba": _predict_proba}
    ledger.add_missing(keras.Sequential, methods)


def _apply(self, inputs, *args, **kwargs):
    return self(inputs, *args, **kwargs)


def add_layer_methods(keras, ledger):
    """Add `apply`, and let `add_update` accept `inputs`, as in TensorFlow 2.0-2.8."""
    ledger.add_missing(keras.layers.Layer, {"apply": _apply})

    @ledger.around(keras.layers.Layer, "add_update")
    def add_update(original, self, updates, inputs=None):
        del inputs  # TensorFlow 2.0-2.8 also accepted and ignored `inputs`.
        return original(self, updates)


def show_scale_as_tensor(keras, ledger):
    """Make `loss_scale` a tensor, and give configs the keys of the stable class.

    This was so in TensorFlow 2.4-2.8, where the experimental class inherited both from the
    stable class. The config of a `LossScale` that the stable class cannot have stays as it is.
    """
    del keras
    stable, cls = LossScaleOptimizer, experimental.LossScaleOptimizer
    ledger.set_attribute(cls, "loss_scale", stable.loss_scale)

    @ledger.around(cls, "get_config")
    def get_config(original, self):
        is_known = type(self.loss_scale_state) in loss_scale_configs.CLASSES.values()
        return stable.get_config(self) if is_known else original(self)


_SCHEDULES = ("LinearCosineDecay", "NoisyLinearCosineDecay")


def add_schedules(keras, ledger):
    """Add two old learning rate schedules, and let Keras load files that contain them."""
    base = keras.optimizers.schedules.LearningRateSchedule
    package = keras_versions.package_of(keras)
    # When Keras loads a file, it looks up the class of a schedule in this private module.
    private = "optimizers.schedules.learning_rate_schedule"
    modules = like.public_modules(package, ".experimental")
    home = keras_versions.private(package, private)
    modules.append(home)
    for name in _SCHEDULES:
        # A config and a pickle name the module of the class, and must not name this module.
        contents = {"__module__": home.__name__}
        schedule = type(name, (tf_private.schedule(name), base), contents)
        for module in modules:
            ledger.set_attribute(module, name, schedule)


# The options that `tf.data` no longer has. They changed the speed of a dataset, but not the
# elements of the dataset.
OPTIONS = (
    *("autotune", "autotune_buffers", "autotune_cpu_budget", "autotune_ram_budget"),
    *("filter_with_random_uniform_fusion", "hoist_random_uniform"),
    *("map_vectorization", "reorder_data_discarding_ops"),
)


class MapVectorizationOptions(types.SimpleNamespace):
    """Holds the options of an optimization that TensorFlow no longer has."""


def ignore_dataset_options(keras, ledger):
    """Let programs set options that `tf.data` no longer has."""
    del keras
    import tensorflow as tf

    options = dict.fromkeys(OPTIONS)
    options["map_vectorization"] = MapVectorizationOptions()
    ledger.add_missing(tf.data.experimental.OptimizationOptions, options)
    ledger.set_attribute(
        tf.data.experimental, "MapVectorizationOptions", MapVectorizationOptions
    )
