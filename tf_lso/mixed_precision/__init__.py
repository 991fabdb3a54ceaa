"""Provide the names of `tf.mixed_precision`."""

from tf_lso.mixed_precision import experimental
from tf_lso.names import mirror_attributes as _mirror_attributes

__all__ = ["experimental"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
