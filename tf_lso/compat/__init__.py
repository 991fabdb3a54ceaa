"""Mirror of `tf.compat`, as far as it had loss scaling."""

from tf_lso import unknown as _unknown
from tf_lso.compat import v1, v2

__all__ = ["v1", "v2"]

__getattr__ = _unknown.of_mirror(__name__, __all__)
