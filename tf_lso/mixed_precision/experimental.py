"""Mirror of `tf.mixed_precision.experimental`."""

from tf_lso import unknown as _unknown
from tf_lso.scaling.loss_scale import DynamicLossScale, FixedLossScale, LossScale

__all__ = ["DynamicLossScale", "FixedLossScale", "LossScale"]

__getattr__ = _unknown.of_mirror(__name__, __all__)
