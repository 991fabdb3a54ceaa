"""Restore models and optimizers from files that old programs saved.

`object_graph` and `h5` read a file into a `source.Source`. `layouts` lists the names that files
contain. `model_targets` and `targets` find the variables of today's model and optimizer.
`matching` finds the variable for each tensor of the file. Tensors match by name, or by order if
the file has no names. `plan` decides which values fit, and writes the values. `restoring`
chooses the plan, or refuses the file if no plan fits.
"""

from tf_lso.frameworks import environment

# `require_tensorflow` must be called before the imports below, which import TensorFlow.
environment.require_tensorflow()

# ruff: noqa: E402
from tf_lso.checkpoints.report import Report
from tf_lso.checkpoints.restoring import restore
from tf_lso.checkpoints.source import CheckpointError

__all__ = ["CheckpointError", "Report", "restore"]
