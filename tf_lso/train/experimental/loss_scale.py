"""Provide the names of `tensorflow.python.training.experimental.loss_scale`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.scaling.loss_scale import DynamicLossScale, FixedLossScale, LossScale
from tf_lso.scaling.loss_scale_configs import get

__all__ = ["DynamicLossScale", "FixedLossScale", "LossScale", "get"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
