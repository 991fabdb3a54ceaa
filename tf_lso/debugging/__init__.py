"""Find out where a value overflows, and which loss scale a model needs."""

from tf_lso import environment

environment.require_tensorflow()  # all that uses TensorFlow begins here

# ruff: noqa: E402
from tf_lso.debugging.explaining import explain, explain_gradients
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
    "explain_gradients",
]
