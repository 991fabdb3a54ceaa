"""Provide the names of `keras.mixed_precision.loss_scale_optimizer`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.optimizers.experimental import LossScaleOptimizer as LossScaleOptimizerV1
from tf_lso.optimizers.loss_scale_optimizer import LossScaleOptimizer

BaseLossScaleOptimizer = LossScaleOptimizerV3 = LossScaleOptimizer

__all__ = [
    "BaseLossScaleOptimizer",
    "LossScaleOptimizer",
    "LossScaleOptimizerV1",
    "LossScaleOptimizerV3",
]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
