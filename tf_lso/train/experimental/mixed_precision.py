"""Provide the names of `tensorflow.python.training.experimental.mixed_precision`.

The functions whose names end with `_v1` are those of `tf.compat.v1`. In tf_lso both are one
function.
"""

from tf_lso.names import mirror_attributes as _mirror_attributes
from tf_lso.optimizers.graph_rewrite import (
    disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite,
)

disable_mixed_precision_graph_rewrite_v1 = disable_mixed_precision_graph_rewrite
enable_mixed_precision_graph_rewrite_v1 = enable_mixed_precision_graph_rewrite

__all__ = [
    "disable_mixed_precision_graph_rewrite",
    "disable_mixed_precision_graph_rewrite_v1",
    "enable_mixed_precision_graph_rewrite",
    "enable_mixed_precision_graph_rewrite_v1",
]

__getattr__ = _mirror_attributes.mirror_getattr(__name__, __all__)
