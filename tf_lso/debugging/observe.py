"""Run a forward pass and two backward passes of a model, and record statistics of tensors."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_lso.debugging import calls as calls_lib
from tf_lso.debugging import restored_state, statistics, validation
from tf_lso.frameworks import variables as variables_lib
from tf_lso.scaling import gradients as gradients_lib

# `_fitting_scale` returns a loss scale at which no gradient is larger than this limit. The
# limit is only about half of the largest float16, because the function computes the loss scale
# from gradients that were rounded to float16. Rounding can change a tiny gradient by half.
_LARGEST = 2.0**15
# The smallest positive number that float16 can hold.
_SMALLEST = 2.0**-24


class Gradient(NamedTuple):
    """Statistics of the gradient of the scaled loss for one tensor or variable."""

    values: statistics.Values
    # The share of the gradient's nonzero values that become 0, because at the loss scale they
    # are too small for float16.
    lost: float


class Variable(NamedTuple):
    """A trainable variable of the model, and a call of the layer that has the variable."""

    name: str
    raw: tf.Variable
    # A call of the innermost layer that has the variable.
    call: calls_lib.Call


@dataclasses.dataclass(frozen=True)
class Pass:
    """What `explain` has recorded in the forward and backward passes of one batch."""

    # Pairs (`Call`, begins) in the order of the forward pass. Each call has two pairs: `begins`
    # is True in the pair for its beginning, and False in the pair for its end.
    moments: list
    loss: tf.Tensor
    scale: float
    fitting_scale: float | None
    # A dict that maps the id of each tensor or variable to the `Gradient` for it.
    gradients: dict
    variables: list[Variable]

    @property
    def calls(self):
        """The calls in the order in which they began."""
        return [call for call, begins in self.moments if begins]

    def gradients_of(self, tensors):
        """Return the list of `Gradient`s of those `tensors` that have a gradient."""
        return [self.gradients[id(t)] for t in tensors if id(t) in self.gradients]


def run(model, keras, batch, loss, scale):
    """Run a forward pass and two backward passes of a batch. Return the results as a `Pass`.

    `batch` is a tuple (x, y, sample_weight).
    """
    weights = [(v, variables_lib.raw(v)) for v in model.trainable_variables]
    tape = tf.GradientTape(persistent=True, watch_accessed_variables=False)
    with restored_state.restored(model):
        # Run each `tf.function` of the model eagerly. In a compiled `tf.function`, tensors have
        # no values that `observed` could record.
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
    """Return a list of `Variable`s, one for each trainable variable of the model.

    Args:
      weights: list of pairs (Keras variable, TensorFlow variable).
      calls: list of the `Call`s of the forward pass.
    """
    owners = {}
    # An outer layer also lists the variables of its inner layers. The call of an inner layer
    # comes after the call of the outer layer. So the last call that is stored for a variable is
    # a call of the innermost layer that has the variable.
    for call in calls:
        for variable in getattr(call.layer, "trainable_variables", ()):
            owners[id(variable)] = call
    return [
        Variable(variables_lib.name_of(v), raw, owners.get(id(v), calls[0]))
        for v, raw in weights
    ]


def _gradients(tape, loss, sources, scale):
    """Return statistics of the gradients of `sources`, and a loss scale that fits them.

    Args:
      tape: the persistent `tf.GradientTape` that recorded the forward pass.
      loss: the unscaled loss.
      sources: list of the tensors and variables for which gradients are computed.
      scale: float, the loss scale.

    Returns:
      A tuple of two elements. The first element is a dict that maps the id of each tensor or
      variable with a gradient to its `Gradient`. The second element is the result of
      `_fitting_scale`: approximately the largest loss scale at which no gradient overflows, or
      None.
    """

    def gradients_at(scale):
        # The gradient of `loss * scale` with respect to `loss` is `scale`. So a backward pass
        # that starts with `scale` gives the gradients of the scaled loss.
        seed = tf.cast(tf.constant(scale, tf.float32), loss.dtype)
        found = tape.gradient(loss, sources, output_gradients=seed)
        summed = gradients_lib.with_summed_rows(found)
        return [g if g is None else gradients_lib.values_of([g])[0] for g in summed]

    at_scale = gradients_at(scale)
    # Run the second backward pass at another loss scale, the reference scale. If the gradients
    # at `scale` are finite, the reference scale is about the largest one that fits, so that
    # small gradients do not become 0. Otherwise the reference scale is at most 1. Then the
    # second pass shows whether the gradients overflow only because `scale` is too large.
    reference = _fitting_scale(at_scale, scale) or min(scale, 1.0)
    at_reference = gradients_at(reference)
    found = {
        id(source): Gradient(statistics.values_of([gradient]), _lost(gradient, other))
        for source, gradient, other in zip(sources, at_scale, at_reference)
        if gradient is not None
    }
    return found, _fitting_scale(at_reference, reference)


def _fitting_scale(gradients, scale):
    """Return approximately the largest loss scale at which no gradient overflows float16.

    Args:
      gradients: list of the gradients of the loss times `scale`. Some of them may be None.
      scale: number, the loss scale of `gradients`.

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
    """Return the share of a gradient's nonzero values that become 0 at the loss scale.

    A value counts as nonzero if it is not 0 in `at_reference`.

    Args:
      at_scale: the gradient at the loss scale.
      at_reference: the same gradient at the reference scale, another loss scale that
        `_gradients` has chosen.
    """
    at_scale, is_known = np.asarray(at_scale), np.asarray(at_reference) != 0
    lost = at_scale[is_known] == 0
    return float(lost.mean()) if lost.size else 0.0
