"""Mirror of `tf.compat.v1.keras.mixed_precision.experimental`."""

from tf_lso import unknown as _unknown
from tf_lso.optimizers.experimental import LossScaleOptimizer
from tf_lso.policies import ExperimentalPolicy as Policy
from tf_lso.policies import experimental_global_policy as global_policy
from tf_lso.policies import get_layer_policy, set_policy

__all__ = [
    "LossScaleOptimizer",
    "Policy",
    "get_layer_policy",
    "global_policy",
    "set_policy",
]

__getattr__ = _unknown.of_mirror(__name__, __all__)
