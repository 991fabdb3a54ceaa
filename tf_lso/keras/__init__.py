"""Mirror of `tf.keras`, as far as it had loss scaling."""

from tf_lso import unknown as _unknown
from tf_lso.keras import mixed_precision

__all__ = ["mixed_precision"]

__getattr__ = _unknown.of_mirror(__name__, __all__)
