"""Mirror of the private `keras.mixed_precision.experimental.loss_scale_optimizer`."""

from tf_lso import unknown as _unknown
from tf_lso.optimizers.experimental import LossScaleOptimizer

__all__ = ["LossScaleOptimizer"]

__getattr__ = _unknown.of_mirror(__name__, __all__)
