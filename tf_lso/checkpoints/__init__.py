"""Restore models and optimizers from files that old programs saved.

`object_graph` and `h5` read a file into a `Source`, which describes the tensors in the file.
`layouts` lists the names that files contain. `model_targets` and `optimizer_targets` find the
variables of today's model and optimizer. `matching` finds the variable for each tensor of the
file. Tensors match by name, or by order if the file has no names. `plan` decides which tensors
fit their variables, and writes the values. `restoring` makes a plan for each model and
optimizer in the file and chooses the best plan, or refuses the file if no plan fits.
"""

from tf_lso.frameworks import environment

environment.require_tensorflow()

# ruff: noqa: E402
from tf_lso.checkpoints.restore_report import RestoreReport
from tf_lso.checkpoints.restoring import restore
from tf_lso.checkpoints.source import CheckpointError

__all__ = ["CheckpointError", "RestoreReport", "restore"]
