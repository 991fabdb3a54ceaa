"""Mirror of `tf.train`, as far as it had loss scaling."""

from tf_lso import unknown as _unknown
from tf_lso.train import experimental

__all__ = ["experimental"]

__getattr__ = _unknown.of_mirror(__name__, __all__)
