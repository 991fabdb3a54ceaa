"""Provide the loss-scaling names of `tf.train.experimental`."""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.optimizers.graph_rewrite import (
    disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite,
)
from tf_lso.scaling.loss_scale import DynamicLossScale, FixedLossScale, LossScale

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "disable_mixed_precision_graph_rewrite",
    "enable_mixed_precision_graph_rewrite",
]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
