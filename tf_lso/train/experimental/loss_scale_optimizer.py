"""Provide the names of `tensorflow.python.training.experimental.loss_scale_optimizer`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.optimizers.graph_rewrite import MixedPrecisionLossScaleOptimizer

__all__ = ["MixedPrecisionLossScaleOptimizer"]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
