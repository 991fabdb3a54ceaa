"""Mirror of `tf.compat.v1.mixed_precision`."""

from tf_lso import unknown as _unknown
from tf_lso.mixed_precision import experimental
from tf_lso.policies.graph_rewrite import (
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

__getattr__ = _unknown.of_mirror(__name__, __all__)
