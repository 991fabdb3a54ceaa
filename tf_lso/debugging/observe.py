"""Run a forward pass and several backward passes of a model, and record statistics."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_lso.debugging import (
    arguments_of_explain,
    layer_calls,
    restored_state,
    statistics,
)
from tf_lso.frameworks import variables as variables_lib
from tf_lso.scaling import gradients as gradients_lib

# No gradient is larger than this limit at the scale that `_fitting_scale` returns. It is half
# of the largest float16, because rounding to float16 can change a tiny gradient by half.
_LARGEST = 2.0**15
# The smallest positive number that float16 can hold.
_SMALLEST = 2.0**-24
# A gradient counts as underflowing if at least this share of its values becomes 0 in float16.
# Without loss scaling, 31 % of the values became 0 in the detection network of Micikevicius et
# al. (2018, section 3.2), and its training diverged.
UNDERFLOW = 0.25


class Gradient(NamedTuple):
    """Statistics of the gradient of the scaled loss for one tensor or variable."""

    values: statistics.Values
    # The share of the nonzero values that become 0 in float16 at the loss scale.
    lost: float


class Variable(NamedTuple):
    """A trainable variable, and a call of the innermost layer that has the variable."""

    name: str
    raw: tf.Variable
    call: layer_calls.Call


@dataclasses.dataclass(frozen=True)
class Pass:
    """What `explain` has recorded in the forward and backward passes of one batch."""

    # The list that `layer_calls.observed` yields.
    moments: list
    # The calls in the order in which they began.
    calls: list[layer_calls.Call]
    loss: tf.Tensor
    scale: float
    # About the largest loss scale at which no gradient overflows, or None.
    fitting_scale: float | None
    # Maps the id of each tensor or variable to its `Gradient` at `scale`.
    gradients: dict
    variables: list[Variable]
    # The loss scale at which `backward` looks for nonfinite gradients, and the gradients there.
    # It is below `scale` if gradients overflow even at 1, where a dynamic scale stops.
    judged_scale: float
    judged: dict

    def gradients_of(self, tensors):
        return [self.gradients[id(t)] for t in tensors if id(t) in self.gradients]


def run(model, keras, batch, loss, scale):
    """Run all passes of `batch`, which is (x, y, sample_weight), and return a `Pass`."""
    weights = [(v, variables_lib.raw(v)) for v in model.trainable_variables]
    tape = tf.GradientTape(persistent=True, watch_accessed_variables=False)
    with restored_state.restored(model):
        # In a compiled `tf.function`, tensors have no values that `observed` could record.
        tf.config.run_functions_eagerly(True)
        with tape:
            tape.watch([raw for _, raw in weights])
            with layer_calls.observed(model, keras) as moments:
                outputs = model(batch[0], training=True)
            value = arguments_of_explain.loss_of(model, batch, outputs, loss)
        calls = [call for call, begins in moments if begins]
        tensors = [t for call in calls for t in (*call.inputs, *call.outputs)]
        sources = [*(raw for _, raw in weights), *tensors]

        def gradients_at(scale):
            # A backward pass that starts with `scale` gives the gradients of `loss * scale`.
            seed = tf.cast(tf.constant(scale, tf.float32), value.dtype)
            found = tape.gradient(value, sources, output_gradients=seed)
            summed = gradients_lib.with_summed_rows(found)
            return [g if g is None else gradients_lib.values_of([g])[0] for g in summed]

        reference, fitting, judged_scale = _scales(gradients_at, scale)
        at_scale, at_reference = gradients_at(scale), gradients_at(reference)
        gradients = _statistics(sources, at_scale, at_reference)
        judged = gradients
        if judged_scale != scale:
            judged = _statistics(sources, gradients_at(judged_scale), at_reference)
    variables = _variables(weights, calls)
    return Pass(
        *(moments, calls, value, scale, fitting, gradients),
        *(variables, judged_scale, judged),
    )


def _variables(weights, calls):
    owners = {}
    # An outer layer also lists the variables of its inner layers, but its call begins before
    # theirs. So the last call that is stored belongs to the innermost layer.
    for call in calls:
        for variable in getattr(call.layer, "trainable_variables", ()):
            owners[id(variable)] = call
    return [
        Variable(variables_lib.name_of(v), raw, owners.get(id(v), calls[0]))
        for v, raw in weights
    ]


def _scales(gradients_at, scale):
    """Return the reference scale, the fitting scale or None, and the judged scale.

    The gradients at the reference scale are finite, if there is such a scale. Values that are 0
    at `scale`, but not at the reference scale, are lost. `Pass` explains the other two scales.
    """
    if fits := _fitting_scale(gradients_at(scale), scale):
        # At a large scale that fits, small gradients do not become 0.
        return fits, _fitting_scale(gradients_at(fits), fits), scale
    start = min(scale, 1.0)
    at_start = gradients_at(start)
    if fits := _fitting_scale(at_start, start):
        return start, fits, scale
    smaller = start
    while not fits and smaller > _SMALLEST:
        judged, smaller = smaller, smaller / 4
        gradients = gradients_at(smaller)
        fits = _fitting_scale(gradients, smaller)
    if not fits or _lost_of_all(at_start, gradients) >= UNDERFLOW:
        return start, None, judged
    return smaller, min(fits, 2 * smaller), start


def _lost_of_all(at_larger, at_smaller):
    # A scale does not fit if gradients are finite only because they have become 0.
    pairs = [p for p in zip(at_smaller, at_larger) if p[0] is not None]
    flat = [np.concatenate([np.ravel(g) for g in side]) for side in zip(*pairs)]
    return _lost(*flat)


def _statistics(sources, gradients, at_reference):
    return {
        id(source): Gradient(statistics.summarize([gradient]), _lost(gradient, other))
        for source, gradient, other in zip(sources, gradients, at_reference)
        if gradient is not None
    }


def _fitting_scale(gradients, scale):
    """Return about the largest loss scale at which no gradient overflows float16.

    The result is `scale` times a power of two, where `scale` is the loss scale of `gradients`.
    It is None if a gradient is not finite, or if there are no gradients.
    """
    values = statistics.summarize(g for g in gradients if g is not None)
    if values.nonfinite or not values.size:
        return None
    largest = max(values.largest, _SMALLEST)
    return math.ldexp(scale, math.floor(math.log2(_LARGEST / largest)))


def _lost(at_scale, at_reference):
    """Return the share of a gradient's values that are 0, but not 0 at the reference scale."""
    at_scale, is_known = np.asarray(at_scale), np.asarray(at_reference) != 0
    lost = at_scale[is_known] == 0
    return float(lost.mean()) if lost.size else 0.0
