"""Explain where the values of one training step overflow or become 0 in float16."""

from tf_lso.frameworks import environment

environment.require_tensorflow()

# ruff: noqa: E402
from tf_lso.debugging.explaining import explain
from tf_lso.debugging.report import First, Report, Row
from tf_lso.debugging.statistics import Values

__all__ = ["First", "Report", "Row", "Values", "explain"]
