"""Provide the names of `tf.keras.mixed_precision`."""

from tf_lso.keras.mixed_precision import experimental
from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tf_lso.policies import (
    DTypePolicy,
    Policy,
    dtype_policy,
    global_policy,
    set_dtype_policy,
    set_global_policy,
)

__all__ = [
    "DTypePolicy",
    "LossScaleOptimizer",
    "Policy",
    "dtype_policy",
    "experimental",
    "global_policy",
    "set_dtype_policy",
    "set_global_policy",
]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
