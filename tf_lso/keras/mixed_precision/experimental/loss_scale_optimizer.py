"""Provide the names of `keras.mixed_precision.experimental.loss_scale_optimizer`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.optimizers.experimental import LossScaleOptimizer

__all__ = ["LossScaleOptimizer"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
