"""Provide the loss-scaling names of `tf.compat.v1.train.experimental`."""

from tf_lso.compat.v1.mixed_precision import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    MixedPrecisionLossScaleOptimizer,
    disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite,
)
from tf_lso.names import mirror_attributes as _mirror_attributes

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "MixedPrecisionLossScaleOptimizer",
    "disable_mixed_precision_graph_rewrite",
    "enable_mixed_precision_graph_rewrite",
]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
