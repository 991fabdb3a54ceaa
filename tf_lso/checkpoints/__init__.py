"""Restore models and optimizers from files that old programs saved.

`object_graph` and `h5` read a file into a `source.Source`. `layouts` lists the names that files
contain. `model_targets` and `targets` find the variables of today's model and optimizer.
`matching` finds the variable for each tensor of the file, by name or, if the file has no names,
by order. `plan` decides which values fit. `restoring` writes the values or refuses the file.
"""

from tf_lso.frameworks import environment

# This call must come before the imports of TensorFlow below.
environment.require_tensorflow()

# ruff: noqa: E402
from tf_lso.checkpoints.report import Report
from tf_lso.checkpoints.restoring import restore
from tf_lso.checkpoints.source import CheckpointError

__all__ = ["CheckpointError", "Report", "restore"]
