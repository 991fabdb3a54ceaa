"""Reads what legacy programs saved: a file is opened, matched, planned and restored.

`object_graph` and `h5` read the formats into a `source.Source`, by the names in `layouts`.
`matching` finds the variable for each tensor among `model_targets` and `targets`, by names,
and by order where a file has no names. `plan` says what fits; `restoring` writes, or refuses.
"""

from tf_lso.frameworks import environment

environment.require_tensorflow()  # all that uses TensorFlow begins here

# ruff: noqa: E402
from tf_lso.checkpoints.report import Report
from tf_lso.checkpoints.restoring import restore
from tf_lso.checkpoints.source import CheckpointError

__all__ = ["CheckpointError", "Report", "restore"]
