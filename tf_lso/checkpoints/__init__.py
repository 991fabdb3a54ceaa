"""Reads what legacy programs saved, and converts it.

`opening` finds out what a path is and makes a `source.Source` of it; `plan` holds that
against the variables of a model and an optimizer; `restore` writes, or refuses. What is
known of the layouts stands in `layouts`.
"""

from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.report import Report
from tf_lso.checkpoints.restoring import restore

__all__ = ["CheckpointError", "Report", "restore"]
