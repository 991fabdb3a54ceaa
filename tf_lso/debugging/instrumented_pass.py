"""One forward and backward pass of a model, of which each layer's call is recorded."""

import contextlib
import dataclasses

import tensorflow as tf

from tf_lso import variables as variables_lib
from tf_lso.debugging import (
    fitting_scale,
    layer_calls,
    losses,
    restored_state,
    statistics,
    validation,
)
from tf_lso.scaling import gradients as gradients_lib


@dataclasses.dataclass
class Pass:
    """What was seen in a pass.

    Attributes:
      calls: list of `layer_calls.Call` with their gradients, the model's own first.
      loss: float.
      variables: list of triples: name, path of the layer or None, `Gradient` or None.
      fitting_scale: float, the largest scale at which all is finite, or None.
    """

    calls: list
    loss: float
    variables: list
    fitting_scale: float | None


def run(model, keras, x, y, loss, scale):
    """Return the `Pass` of a batch through a model that is built."""
    weights = list(model.trainable_variables)
    raw_weights = [variables_lib.raw(variable) for variable in weights]
    tape = tf.GradientTape(persistent=True, watch_accessed_variables=False)
    with restored_state.restored(model), _eagerly():
        with tape:
            tape.watch(raw_weights)
            with layer_calls.recorded(keras) as calls:
                outputs = validation.called(model, x)
            value = losses.loss_of(model, keras, x, y, outputs, loss)
        tensors = [t for call in calls for t in (*call.inputs, *call.outputs)]
        gradients, fitting = _gradients(tape, value, [*raw_weights, *tensors], scale)
    for call in calls:
        call.input_gradients = [g for t in call.inputs if (g := gradients[id(t)])]
        call.output_gradients = [g for t in call.outputs if (g := gradients[id(t)])]
    variables, owners = [], _owners(calls)
    for variable, raw in zip(weights, raw_weights):
        owner, gradient = owners.get(id(variable)), gradients[id(raw)]
        for call in calls:
            if gradient and owner and owner.layer is call.layer:
                call.weight_gradients.append(gradient)
        name = variables_lib.name_of(variable)
        variables.append((name, owner and owner.path, gradient))
    return Pass(calls, float(value), variables, fitting)


@contextlib.contextmanager
def _eagerly():
    """Run what is a `tf.function` in the model eagerly too, to see into it."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _gradients(tape, loss, sources, scale):
    """Return {id of a source: `Gradient` or None}, and the largest scale that fits."""

    def gradients_at(scale):
        # What the gradient of `loss * scale` begins with, in the dtype of the loss.
        seed = tf.cast(tf.constant(scale, tf.float32), loss.dtype)
        found = tape.gradient(loss, sources, output_gradients=seed)
        found = gradients_lib.with_summed_rows(found)
        return [g if g is None else gradients_lib.values_of([g])[0] for g in found]

    at_scale = gradients_at(scale)
    fitting, at_fitting = fitting_scale.search(gradients_at, scale, at_scale)
    found = {}
    for source, one, best in zip(sources, at_scale, at_fitting or at_scale):
        found[id(source)] = (
            one
            if one is None
            else statistics.gradient_of(
                one.numpy(), scale, best.numpy(), fitting or scale
            )
        )
    return found, fitting


def _owners(calls):
    """Return id of a variable -> the first call of the innermost layer that has it."""
    first = {}
    for call in calls:
        first.setdefault(id(call.layer), call)
    # From the layer with the most variables to that with the fewest, which stays.
    found = {}
    for call in sorted(first.values(), key=lambda call: -len(_trainable(call))):
        found.update(dict.fromkeys(map(id, _trainable(call)), call))
    return found


def _trainable(call):
    return getattr(call.layer, "trainable_variables", ())
