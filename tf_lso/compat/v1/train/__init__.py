"""Mirror of `tf.compat.v1.train`, as far as it had loss scaling."""

from tf_lso import unknown as _unknown
from tf_lso.compat.v1.train import experimental

__all__ = ["experimental"]

__getattr__ = _unknown.of_mirror(__name__, __all__)
