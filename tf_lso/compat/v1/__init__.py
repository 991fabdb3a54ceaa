"""Provide the loss-scaling names of `tf.compat.v1`."""

from tf_lso import keras
from tf_lso import mixed_precision as _of_v2
from tf_lso.compat.v1 import mixed_precision, train
from tf_lso.names import mirror_attributes as _mirror_attributes

__all__ = ["keras", "mixed_precision", "train"]

_mirror_attributes.also_in(__name__, keras, _of_v2.experimental)

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
