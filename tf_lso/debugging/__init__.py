"""Find the layer in which a value overflows or vanishes, and a loss scale that fits."""

from tf_lso.frameworks import environment

environment.require_tensorflow()  # must come before the imports of TensorFlow below

# ruff: noqa: E402
from tf_lso.debugging.explaining import explain
from tf_lso.debugging.report import First, Report, Row
from tf_lso.debugging.statistics import Values

__all__ = ["First", "Report", "Row", "Values", "explain"]
