"""Provide the names of `keras.mixed_precision.policy`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.policies import ExperimentalPolicy as PolicyV1
from tf_lso.policies import Policy, global_policy, set_global_policy, set_policy

__all__ = [
    "Policy",
    "PolicyV1",
    "global_policy",
    "set_global_policy",
    "set_policy",
]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
