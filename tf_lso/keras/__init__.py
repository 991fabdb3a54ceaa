"""Provide the loss-scaling names of `tf.keras`."""

from tf_lso.keras import mixed_precision
from tf_lso.names import mirror_attributes as _mirror_attributes

__all__ = ["mixed_precision"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
