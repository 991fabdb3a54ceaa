"""Provide the loss-scaling names of `tf.compat`."""

from tf_lso.compat import v1, v2
from tf_lso.names import mirror_attributes as _mirror_attributes

__all__ = ["v1", "v2"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
