"""Provide the loss-scaling names of `tf.compat.v2`.

`tf.compat.v2` has the same names as `tf`. So `tf_lso.compat.v2.keras` is the same module as
`tf_lso.keras`, and likewise `mixed_precision` and `train`.
"""

from tf_lso import keras, mixed_precision, train
from tf_lso.names import mirror_attributes as _mirror_attributes

__all__ = ["keras", "mixed_precision", "train"]

_mirror_attributes.also_in(__name__, keras, mixed_precision, train)

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
