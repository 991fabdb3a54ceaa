"""One forward and backward pass of a model, of which each layer's call is recorded."""

import bisect
import math

import tensorflow as tf

from tf_lso import variables as variables_lib
from tf_lso.debugging import layer_calls, report, restored_state, statistics, validation
from tf_lso.scaling import gradients as gradients_lib

# Where the search for a scale ends. At a smaller one what is not finite by itself may
# become 0 and seem to fit; a larger one leaves no room in float32.
_ENDS = 2.0**-14, 2.0**100


def run(model, keras, x, y, loss, scale):
    """Return what `recorded` has, the loss, `VariableGradient`s, the fitting scale."""
    weights = list(model.trainable_variables)
    raw_weights = [variables_lib.raw(variable) for variable in weights]
    tape = tf.GradientTape(persistent=True, watch_accessed_variables=False)
    with restored_state.restored(model):
        # What is a `tf.function` in the model is seen into.
        tf.config.run_functions_eagerly(True)
        with tape:
            tape.watch(raw_weights)
            with layer_calls.recorded(keras) as moments:
                outputs = validation.outputs_of(model, x)
            value = validation.loss_of(model, keras, x, y, outputs, loss)
        calls = [call for call, begins in moments if begins]
        tensors = [t for call in calls for t in (*call.inputs, *call.outputs)]
        gradients, fitting = _gradients(tape, value, [*raw_weights, *tensors], scale)
    for call in calls:
        call.input_gradients = [g for t in call.inputs if (g := gradients.get(id(t)))]
        call.output_gradients = [g for t in call.outputs if (g := gradients.get(id(t)))]
    variables, owners = [], _owners(calls)
    for variable, raw in zip(weights, raw_weights):
        owner, gradient = owners.get(id(variable)), gradients.get(id(raw))
        for call in calls:
            if gradient and owner and owner.layer is call.layer:
                call.weight_gradients.append(gradient)
        name = variables_lib.name_of(variable)
        variables.append(report.VariableGradient(name, owner and owner.path, gradient))
    return moments, float(value), variables, fitting


def _owners(calls):
    """Return id of a variable -> the first call of the innermost layer that has it."""
    first = [call for call in calls if call.number == 1]
    found = {}
    # What comes last stays: the layer with the fewest variables, and the inner of two.
    for call in sorted(first, key=lambda call: -len(_trainable(call))):
        found.update(dict.fromkeys(map(id, _trainable(call)), call))
    return found


def _trainable(call):
    return getattr(call.layer, "trainable_variables", ())


def _gradients(tape, loss, sources, scale):
    """Return {id of a source: `Gradient`}, and the largest scale that fits, if any."""

    def gradients_at(scale):
        # What the gradient of `loss * scale` begins with, in the dtype of the loss.
        seed = tf.cast(tf.constant(scale, tf.float32), loss.dtype)
        found = tape.gradient(loss, sources, output_gradients=seed)
        found = gradients_lib.with_summed_rows(found)
        return [g if g is None else gradients_lib.values_of([g])[0] for g in found]

    at_scale = gradients_at(scale)
    fitting = _fitting_scale(gradients_at, scale, at_scale)
    at_fitting = at_scale if fitting is None else gradients_at(fitting)
    found = {
        id(source): statistics.gradient_of(
            g.numpy(), scale, best.numpy(), fitting or scale
        )
        for source, g, best in zip(sources, at_scale, at_fitting)
        if g is not None
    }
    return found, fitting


def _fitting_scale(gradients_at, scale, gradients):
    """Return the largest `scale * 2**n` at which all gradients are finite, or None."""
    smallest, largest = (math.floor(math.log2(end / scale)) for end in _ENDS)
    fits = _all_finite(gradients)
    powers = range(0, max(largest, 0) + 1) if fits else range(smallest + 1, 0)

    def overflows(power):
        return not _all_finite(gradients_at(math.ldexp(scale, power)))

    fitting = bisect.bisect_left(powers, True, key=overflows)
    return math.ldexp(scale, powers[fitting - 1]) if fitting else None


def _all_finite(gradients):
    found = [tf.math.is_finite(one) for one in gradients if one is not None]
    return all(bool(tf.reduce_all(one)) for one in found)
