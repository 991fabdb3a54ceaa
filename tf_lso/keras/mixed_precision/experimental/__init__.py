"""Provide the names of `tf.keras.mixed_precision.experimental`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
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

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
