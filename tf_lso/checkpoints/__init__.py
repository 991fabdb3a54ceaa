"""Restore files of old programs. A file is opened, matched, planned and restored.

`object_graph` and `h5` read a file into a `source.Source`. The names that files contain are in
`layouts`. `model_targets` and `targets` are the variables of today's model and optimizer, and
`matching` finds the variable for each tensor by its name, or by order if a file has no names.
`plan` decides what fits. `restoring` writes the values or refuses the file.
"""

from tf_lso.frameworks import environment

environment.require_tensorflow()  # before the import of TensorFlow fails

# ruff: noqa: E402
from tf_lso.checkpoints.report import Report
from tf_lso.checkpoints.restoring import restore
from tf_lso.checkpoints.source import CheckpointError

__all__ = ["CheckpointError", "Report", "restore"]
