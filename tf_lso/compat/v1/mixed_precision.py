"""Provide the names of `tf.compat.v1.mixed_precision`."""

from tf_lso.mixed_precision import experimental
from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.optimizers.graph_rewrite import (
    MixedPrecisionLossScaleOptimizer,
    disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite,
)
from tf_lso.scaling.loss_scale import DynamicLossScale, FixedLossScale, LossScale

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "MixedPrecisionLossScaleOptimizer",
    "disable_mixed_precision_graph_rewrite",
    "enable_mixed_precision_graph_rewrite",
    "experimental",
]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
