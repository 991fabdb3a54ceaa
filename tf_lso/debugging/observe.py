"""Run one forward and backward pass of a model, and measure its values and gradients."""

import bisect
import dataclasses
import math

import tensorflow as tf

from tf_lso import variables as variables_lib
from tf_lso.debugging import calls as calls_lib
from tf_lso.debugging import forward, report, restored_state, statistics, validation
from tf_lso.scaling import gradients as gradients_lib

# The smallest and largest scale that the search tries. At a smaller one a gradient that is
# never finite may become 0 and seem to fit; a larger one leaves no room in float32.
_SMALLEST_SCALE, _LARGEST_SCALE = 2.0**-14, 2.0**100


@dataclasses.dataclass(frozen=True)
class Pass:
    """What one forward and backward pass showed."""

    moments: list  # pairs of a `Call` and whether it begins, in the order of the pass
    trouble: forward.Trouble | None
    loss: float
    scale: float
    fitting_scale: float | None
    variables: list  # of `VariableGradient`

    @property
    def calls(self):
        """The calls in the order in which they began."""
        return [call for call, begins in self.moments if begins]


def run(model, keras, batch, loss, scale):
    """Run one forward and backward pass on a batch (x, y, sample_weight), return a `Pass`."""
    weights = list(model.trainable_variables)
    raw_weights = [variables_lib.raw(variable) for variable in weights]
    tape = tf.GradientTape(persistent=True, watch_accessed_variables=False)
    with restored_state.restored(model):
        # A `tf.function` in the model would hide the layers that it calls.
        tf.config.run_functions_eagerly(True)
        with tape:
            tape.watch(raw_weights)
            with calls_lib.observed(model, keras) as moments:
                outputs = validation.outputs_of(model, batch[0])
            value = validation.loss_of(model, batch, outputs, loss)
        trouble = forward.trouble_of(moments)
        calls = [call for call, begins in moments if begins]
        tensors = [t for call in calls for t in (*call.inputs, *call.outputs)]
        gradients, fitting = _gradients(tape, value, [*raw_weights, *tensors], scale)
    for call in calls:
        call.input_gradients = [g for t in call.inputs if (g := gradients.get(id(t)))]
        call.output_gradients = [g for t in call.outputs if (g := gradients.get(id(t)))]
    owners = _owners(calls)
    variables = [
        report.VariableGradient(
            name=variables_lib.name_of(variable),
            layer=owners[id(variable)].path if id(variable) in owners else None,
            values=calls_lib.values_of([raw]),
            gradient=gradients.get(id(raw)),
        )
        for variable, raw in zip(weights, raw_weights)
    ]
    return Pass(moments, trouble, float(value), scale, fitting, variables)


def _owners(calls):
    """Return id of a variable -> the first call of the innermost layer that has it."""
    held = [(getattr(call.layer, "trainable_variables", ()), call) for call in calls]
    owners = {}
    # The layer with the fewest variables comes last and overwrites the layers around it.
    for own, call in sorted(held, key=lambda pair: (-len(pair[0]), -pair[1].number)):
        owners.update(dict.fromkeys(map(id, own), call))
    return owners


def _gradients(tape, loss, sources, scale):
    """Return {id of a source: `Gradient`}, and the largest scale that fits or None."""

    def gradients_at(scale):
        # The gradient of `loss * scale` begins with the scale in the dtype of the loss.
        seed = tf.cast(tf.constant(scale, tf.float32), loss.dtype)
        return _dense(tape.gradient(loss, sources, output_gradients=seed))

    at_scale = gradients_at(scale)
    fitting = _fitting_scale(gradients_at, scale, at_scale)
    at_fitting = at_scale if fitting is None else gradients_at(fitting)
    found = {
        id(source): statistics.gradient_of(one.numpy(), best.numpy(), fitting or scale)
        for source, one, best in zip(sources, at_scale, at_fitting)
        if one is not None
    }
    return found, fitting


def _dense(gradients):
    """Return gradients as tensors: of slices the summed rows, and None as it is."""
    summed = gradients_lib.with_summed_rows(gradients)
    return [g if g is None else gradients_lib.values_of([g])[0] for g in summed]


def _fitting_scale(gradients_at, scale, gradients):
    """Return the largest `scale * 2**n` at which all gradients are finite, or None.

    A dynamic loss scale would find it by halving and doubling, in up to 100 backward
    passes. Bisection takes about 7.
    """
    if all(one is None for one in gradients):
        return scale  # all layers are frozen
    lowest = math.floor(math.log2(_SMALLEST_SCALE / scale))
    highest = math.floor(math.log2(_LARGEST_SCALE / scale))
    fits = _all_finite(gradients)
    powers = range(0, max(highest, 0) + 1) if fits else range(lowest + 1, 0)

    def overflows(power):
        return not _all_finite(gradients_at(math.ldexp(scale, power)))

    fitting = bisect.bisect_left(powers, True, key=overflows)
    return math.ldexp(scale, powers[fitting - 1]) if fitting else None


def _all_finite(gradients):
    found = [tf.math.is_finite(one) for one in gradients if one is not None]
    return all(bool(tf.reduce_all(one)) for one in found)
