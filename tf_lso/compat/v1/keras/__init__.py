"""Mirror of `tf.compat.v1.keras`, as far as it had loss scaling."""

from tf_lso import unknown as _unknown
from tf_lso.compat.v1.keras import mixed_precision

__all__ = [
    "mixed_precision",
]

__getattr__ = _unknown.of_mirror(__name__, __all__)
