"""Provide the loss-scaling names of `tf.train`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.train import experimental

__all__ = ["experimental"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
