"""Provide the names of `keras.mixed_precision.device_compatibility_check`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.policies import log_device_compatibility_check

__all__ = ["log_device_compatibility_check"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
