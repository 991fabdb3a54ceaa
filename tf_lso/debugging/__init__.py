"""Find the layer where values overflow or become 0, and a loss scale that prevents this."""

from tf_lso.frameworks import environment

# Check for TensorFlow first, because the modules below import it.
environment.require_tensorflow()

# ruff: noqa: E402
from tf_lso.debugging.explaining import explain
from tf_lso.debugging.report import First, Report, Row
from tf_lso.debugging.statistics import Values

__all__ = ["First", "Report", "Row", "Values", "explain"]
