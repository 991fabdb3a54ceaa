"""Find out where a value overflows, and which loss scale a model needs.

`explaining` and `explaining_gradients` have the two functions. `passing` runs the pass:
`unchanged` restores all that it changes, `capture` records each call of a layer,
`backward` computes the gradients at the loss scale and at the largest that fits.
`statistics` has the numbers of one tensor, `diagnosis` where trouble began, `advice` the
words for it. `explanation` is the report, `table` its text and `plot` its picture.
"""

from tf_lso import environment

environment.require_tensorflow()  # all that uses TensorFlow begins here

# ruff: noqa: E402
from tf_lso.debugging.explaining import explain
from tf_lso.debugging.explaining_gradients import explain_gradients
from tf_lso.debugging.explanation import First, LayerCall, Report, VariableGradient
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
