"""The names of `tf.compat.v2` that concern loss scaling. `tf` has the same names."""

from tf_lso import keras, mixed_precision, train
from tf_lso.names import mirror_attributes as _mirror_attributes

__all__ = ["keras", "mixed_precision", "train"]

_mirror_attributes.also_in(__name__, keras, mixed_precision, train)

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
