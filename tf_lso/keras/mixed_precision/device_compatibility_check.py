"""Mirror of the private `keras.mixed_precision.device_compatibility_check`."""

from tf_lso import unknown as _unknown
from tf_lso.policies import log_device_compatibility_check

__all__ = ["log_device_compatibility_check"]

__getattr__ = _unknown.of_mirror(__name__, __all__)
