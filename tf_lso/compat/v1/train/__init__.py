"""Provide the loss-scaling names of `tf.compat.v1.train`."""

from tf_lso.compat.v1.train import experimental
from tf_lso.names import mirror_attributes as _mirror_attributes

__all__ = ["experimental"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
