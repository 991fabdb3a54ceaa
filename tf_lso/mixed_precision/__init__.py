"""Mirror of `tf.mixed_precision`."""

from tf_lso import unknown as _unknown
from tf_lso.mixed_precision import experimental

__all__ = ["experimental"]

__getattr__ = _unknown.of_mirror(__name__, __all__)
