"""Provide the names of `keras.mixed_precision.experimental.policy`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.policies import ExperimentalPolicy as Policy
from tf_lso.policies import experimental_global_policy as global_policy
from tf_lso.policies import set_policy

__all__ = ["Policy", "global_policy", "set_policy"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
