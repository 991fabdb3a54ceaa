"""Mirror of `tf.compat.v1`, as far as it had loss scaling."""

from tf_lso import keras
from tf_lso import mixed_precision as _of_v2
from tf_lso import unknown as _unknown
from tf_lso.compat.v1 import mixed_precision, train

__all__ = ["keras", "mixed_precision", "train"]

_unknown.also_in(__name__, keras, _of_v2.experimental)

__getattr__ = _unknown.of_mirror(__name__, __all__)
