"""Mirror of `tf.compat.v1.keras.mixed_precision`."""

from tf_lso import unknown as _unknown
from tf_lso.compat.v1.keras.mixed_precision import experimental
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

__getattr__ = _unknown.of_mirror(__name__, __all__)
