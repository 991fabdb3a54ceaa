"""Provide the names of `tf.mixed_precision.experimental`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.scaling.loss_scale import DynamicLossScale, FixedLossScale, LossScale

__all__ = ["DynamicLossScale", "FixedLossScale", "LossScale"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
