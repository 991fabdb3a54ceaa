"""Run a forward pass and two backward passes of a model, and measure the values."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_lso.debugging import calls as calls_lib
from tf_lso.debugging import restored_state, statistics, validation
from tf_lso.frameworks import variables as variables_lib
from tf_lso.scaling import gradients as gradients_lib

# The largest gradient at a scale that fits. This is half of the largest float16, since the
# smallest numbers may be rounded by up to a half.
_LARGEST = 2.0**15
_SMALLEST = 2.0**-24  # the smallest float16 above 0


class Gradient(NamedTuple):
    """A gradient at the loss scale."""

    values: statistics.Values
    lost: float  # the share of values that become 0 at this scale


class Variable(NamedTuple):
    """A trainable variable."""

    name: str
    raw: tf.Variable
    call: calls_lib.Call  # the call of the innermost layer that has the variable


@dataclasses.dataclass(frozen=True)
class Pass:
    """What `explain` has recorded in the forward and backward passes of one batch."""

    # Pairs of a `Call` and a bool in the order of the forward pass. The bool is True where the
    # call begins and False where the call ends.
    moments: list
    loss: tf.Tensor
    scale: float
    fitting_scale: float | None
    gradients: dict  # maps the id of a tensor or variable to its `Gradient`
    variables: list[Variable]

    @property
    def calls(self):
        """The calls in the order in which they began."""
        return [call for call, begins in self.moments if begins]

    def gradients_of(self, tensors):
        """Return the `Gradient`s of all `tensors` that have a gradient."""
        return [self.gradients[id(t)] for t in tensors if id(t) in self.gradients]


def run(model, keras, batch, loss, scale):
    """Run a model on a batch (x, y, sample_weight) and return a `Pass`."""
    weights = [(v, variables_lib.raw(v)) for v in model.trainable_variables]
    tape = tf.GradientTape(persistent=True, watch_accessed_variables=False)
    with restored_state.restored(model):
        # A `tf.function` in the model would hide the layers that it calls.
        tf.config.run_functions_eagerly(True)
        with tape:
            tape.watch([raw for _, raw in weights])
            with calls_lib.observed(model, keras) as moments:
                outputs = model(batch[0], training=True)
            value = validation.loss_of(model, batch, outputs, loss)
        calls = [call for call, begins in moments if begins]
        tensors = [t for call in calls for t in (*call.inputs, *call.outputs)]
        sources = [*(raw for _, raw in weights), *tensors]
        gradients, fitting = _gradients(tape, value, sources, scale)
    variables = _variables(weights, calls)
    return Pass(moments, value, scale, fitting, gradients, variables)


def _variables(weights, calls):
    """Return a `Variable` for each pair of a Keras variable and its TensorFlow variable."""
    owners = {}
    for call in calls:  # calls of inner layers come later and replace outer calls
        for variable in getattr(call.layer, "trainable_variables", ()):
            owners[id(variable)] = call
    return [
        Variable(variables_lib.name_of(v), raw, owners.get(id(v), calls[0]))
        for v, raw in weights
    ]


def _gradients(tape, loss, sources, scale):
    """Return {id of a source: `Gradient`}, and a loss scale that fits (or None)."""

    def gradients_at(scale):
        # The backward pass of `loss * scale` begins with the scale, in the dtype of the loss.
        seed = tf.cast(tf.constant(scale, tf.float32), loss.dtype)
        found = tape.gradient(loss, sources, output_gradients=seed)
        summed = gradients_lib.with_summed_rows(found)
        return [g if g is None else gradients_lib.values_of([g])[0] for g in summed]

    at_scale = gradients_at(scale)
    # If the gradients at this scale are finite, the reference is a larger scale, at which small
    # numbers do not become 0. Otherwise the reference is a scale of at most 1, which shows
    # whether scaling is to blame.
    reference = _fitting_scale(at_scale, scale) or min(scale, 1.0)
    at_reference = gradients_at(reference)
    found = {
        id(source): Gradient(statistics.values_of([gradient]), _lost(gradient, other))
        for source, gradient, other in zip(sources, at_scale, at_reference)
        if gradient is not None
    }
    return found, _fitting_scale(at_reference, reference)


def _fitting_scale(gradients, scale):
    """Return approximately the largest scale at which gradients fit into float16.

    Args:
      gradients: list of the gradients at `scale`, of which some may be None.
      scale: number.

    Returns:
      `scale` times a power of two, or None if a gradient is not finite or there are no
      gradients.
    """
    values = statistics.values_of(g for g in gradients if g is not None)
    if values.nonfinite or not values.size:
        return None
    largest = max(values.largest, _SMALLEST)
    return math.ldexp(scale, math.floor(math.log2(_LARGEST / largest)))


def _lost(at_scale, at_reference):
    """Return the share of lost values, which are 0 at the scale but not at the reference.

    Values that are 0 at the reference are not counted.
    """
    at_scale, is_known = np.asarray(at_scale), np.asarray(at_reference) != 0
    lost = at_scale[is_known] == 0
    return float(lost.mean()) if lost.size else 0.0
