"""Mirror of the private `tensorflow.python.training.experimental.loss_scale`."""

from tf_lso import unknown as _unknown
from tf_lso.scaling.loss_scale import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    get,
)

__all__ = ["DynamicLossScale", "FixedLossScale", "LossScale", "get"]

__getattr__ = _unknown.of_mirror(__name__, __all__)
