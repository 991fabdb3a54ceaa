"""Mirror of the private `keras.mixed_precision.policy`."""

from tf_lso import unknown as _unknown
from tf_lso.policies import ExperimentalPolicy as PolicyV1
from tf_lso.policies import Policy, global_policy, set_global_policy, set_policy

__all__ = [
    "Policy",
    "PolicyV1",
    "global_policy",
    "set_global_policy",
    "set_policy",
]

__getattr__ = _unknown.of_mirror(__name__, __all__)
