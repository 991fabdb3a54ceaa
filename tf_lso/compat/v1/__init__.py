"""Mirror of `tf.compat.v1`, as far as it had loss scaling."""

from tf_lso import unknown as _unknown
from tf_lso.compat.v1 import keras, mixed_precision, train

__all__ = [
    "keras",
    "mixed_precision",
    "train",
]

__getattr__ = _unknown.of_mirror(__name__, __all__)
