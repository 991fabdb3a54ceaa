"""Find the layer in which a value overflows or vanishes, and a loss scale that fits."""

from tf_lso import environment

environment.require_tensorflow()  # all that uses TensorFlow begins here

# ruff: noqa: E402
from tf_lso.debugging.explaining import explain
from tf_lso.debugging.report import First, LayerCall, Report, VariableGradient
from tf_lso.debugging.statistics import Gradient, Values

__all__ = [
    "First",
    "Gradient",
    "LayerCall",
    "Report",
    "Values",
    "VariableGradient",
    "explain",
]
