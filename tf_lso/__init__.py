"""Legacy mixed-precision loss scaling for today's TensorFlow and Keras.

This package has the loss-scaling API of tf.keras 2.0-2.15 (`get_scaled_loss`,
`get_unscaled_gradients`, fixed and dynamic loss scales, hyperparameter delegation) for the
optimizers of Keras 3 and Keras 2. Loss scaling is also correct under `tf.distribute`.

Importing the package changes neither TensorFlow nor Keras, and imports neither of them.
Each name is loaded when it is first used. The import has only one effect: Keras can then
load tf_lso's optimizers from files.
"""

import importlib as _importlib
import typing as _typing

# Type checkers read these imports. At run time `__getattr__` loads the same names.
if _typing.TYPE_CHECKING:
    from tf_lso import callbacks as callbacks
    from tf_lso import checkpoints as checkpoints
    from tf_lso import compat as compat
    from tf_lso import debugging as debugging
    from tf_lso import keras as keras
    from tf_lso import mixed_precision as mixed_precision
    from tf_lso import summary as summary
    from tf_lso import train as train
    from tf_lso.install import install as install
    from tf_lso.install import uninstall as uninstall
    from tf_lso.optimizers.loss_scale_optimizer import (
        LossScaleOptimizer as LossScaleOptimizer,
    )
    from tf_lso.optimizers.stuck import raise_if_stuck as raise_if_stuck
    from tf_lso.optimizers.wrapping import wrap as wrap
    from tf_lso.scaling.loss_scale import DynamicLossScale as DynamicLossScale
    from tf_lso.scaling.loss_scale import FixedLossScale as FixedLossScale
    from tf_lso.scaling.loss_scale import LossScale as LossScale

__version__ = "0.1.0"

_NAMES = {
    "DynamicLossScale": "scaling.loss_scale",
    "FixedLossScale": "scaling.loss_scale",
    "LossScale": "scaling.loss_scale",
    "LossScaleOptimizer": "optimizers.loss_scale_optimizer",
    "install": "install",
    "raise_if_stuck": "optimizers.stuck",
    "uninstall": "install",
    "wrap": "optimizers.wrapping",
}
_MIRRORS = ("compat", "keras", "mixed_precision", "train")
_PACKAGES = ("callbacks", "checkpoints", "debugging", "summary", *_MIRRORS)

_PUBLIC = sorted(("__version__", *_PACKAGES, *_NAMES))

# The names that `from tf_lso import *` imports. Modules are omitted, because programs
# import modules of the same names from `tensorflow`.
__all__ = sorted(("__version__", *_NAMES))


def _load(module: str) -> _typing.Any:
    # `from tf_lso import ...` would call `__getattr__` again.
    return _importlib.import_module(f"tf_lso.{module}")


# With `__getattr__`, type checkers would accept any name in `tf_lso`.
if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> _typing.Any:
        if name not in _PUBLIC:
            raise _load("names.mirror_attributes").attribute_error(
                __name__, name, _PUBLIC
            )
        if name in _PACKAGES:
            return _load(name)
        value = getattr(_load(_NAMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({name for name in globals() if name.startswith("__")} | {*_PUBLIC})


_load("install.import_hooks").register_optimizers()

if not _typing.TYPE_CHECKING:
    # `register_optimizers` has bound the name `install` to a package, not to the
    # function.
    install = _load("install").install
