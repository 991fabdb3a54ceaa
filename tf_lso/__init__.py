"""Legacy mixed-precision loss scaling for today's TensorFlow and Keras.

The loss-scaling API of tf.keras 2.0-2.15 (`get_scaled_loss`,
`get_unscaled_gradients`, fixed and dynamic loss scales, hyperparameter delegation)
around the optimizers of Keras 3 and tf_keras, correct under `tf.distribute`.

Importing this package patches nothing and imports neither TensorFlow nor Keras: each
name is loaded when it is first used. So `tf-lso check` needs no TensorFlow, and under
`tf-lso run` a program can set its environment first. The only effect is that Keras, once
it is imported, finds tf_lso's optimizers in files.
"""

import importlib as _importlib

__version__ = "0.1.0"

# Public name -> the module that has it.
_NAMES = {
    "DynamicLossScale": "scaling.loss_scale",
    "FixedLossScale": "scaling.loss_scale",
    "LossScale": "scaling.loss_scale",
    "LossScaleOptimizer": "optimizers",
    "install": "installation",
    "wrap": "installation.wrapping",
}
# The mirrors: take the old dotted name and write `tf_lso` for `tf`.
_MIRRORS = ("compat", "keras", "mixed_precision", "train")
_PACKAGES = ("checkpoints", *_MIRRORS)

__all__ = sorted(("__version__", *_PACKAGES, *_NAMES))


def _load(module):
    # `from tf_lso import ...` would call `__getattr__` before it imports.
    return _importlib.import_module(f"tf_lso.{module}")


def __getattr__(name):
    if name not in __all__:
        raise _load("unknown").attribute_error(__name__, name, __all__)
    if name in _PACKAGES:
        return _load(name)
    value = getattr(_load(_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})


_load("registration").register()
