"""Mirror of `tf.compat`, as far as it had loss scaling."""

from tf_lso import mirror_attributes as _mirror_attributes
from tf_lso.compat import v1, v2

__all__ = ["v1", "v2"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
