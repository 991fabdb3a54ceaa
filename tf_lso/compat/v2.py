"""Mirror of `tf.compat.v2`, as far as it had loss scaling: of `tf` itself."""

from tf_lso import keras, mixed_precision, train
from tf_lso import unknown as _unknown

__all__ = ["keras", "mixed_precision", "train"]

_unknown.also_in(__name__, keras, mixed_precision, train)

__getattr__ = _unknown.of_mirror(__name__, __all__)
