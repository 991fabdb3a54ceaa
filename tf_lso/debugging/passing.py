"""One forward and backward pass of a model, watched, that leaves nothing behind."""

import contextlib
import dataclasses

import tensorflow as tf

from tf_lso import variables as variables_lib
from tf_lso.debugging import backward, capture, given, losses, operations, statistics
from tf_lso.debugging import unchanged as unchanged_lib


@dataclasses.dataclass
class Pass:
    """What a pass saw.

    Attributes:
      calls: list of `capture.Call`, the model's own first, with their gradients.
      loss: float.
      loss_values: `Values` of the loss.
      weights: dict, id of a layer -> the pairs of a name and `Values` of its variables.
      variables: list of triples: name, path of the layer or None, `Gradient` or None.
      fitting_scale: float, the largest scale at which all is finite, or None.
    """

    calls: list
    loss: float
    loss_values: statistics.Values
    weights: dict
    variables: list
    fitting_scale: float | None


def run(model, keras, x, y, loss, scale):
    """Return the `Pass` of a batch through a model that is built."""
    with unchanged_lib.unchanged(model, loss), _eagerly():
        captured = capture.Capture(keras)
        weights = list(model.trainable_variables)
        tape = tf.GradientTape(persistent=True, watch_accessed_variables=False)
        with captured.running():
            with tape:
                tape.watch([variables_lib.raw(variable) for variable in weights])
                outputs = given.called(model, x, training=True)
                value = losses.loss_of(model, keras, x, y, outputs, loss)
        return _backward(tape, value, _within(captured.calls), weights, scale)


@contextlib.contextmanager
def _eagerly():
    """Run what is a `tf.function` in the model eagerly too, to see into it."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _within(calls):
    """Return the calls in the first one, the model's own; a loss may call layers too."""
    kept = calls[:1]
    for call in calls[1:]:
        if call.parent in kept:
            kept.append(call)
    return kept


def _backward(tape, loss, calls, weights, scale):
    sources = [variables_lib.raw(variable) for variable in weights]
    for call in calls:
        sources += call.inputs + call.outputs
    passes = backward.Backward(tape, loss, sources)
    at_scale = passes.at(scale)
    fitting_scale, fitting = passes.fitting(scale, at_scale)
    best_scale = fitting_scale or scale
    found = iter(
        None
        if one is None
        else statistics.gradient_of(one.numpy(), scale, best.numpy(), best_scale)
        for one, best in zip(at_scale, fitting or at_scale)
    )
    of_weights = [next(found) for _ in weights]
    for call in calls:
        call.input_gradients = [g for _ in call.inputs if (g := next(found))]
        call.output_gradients = [g for _ in call.outputs if (g := next(found))]
    owners = _owners(calls, weights)
    for call in calls:
        call.weight_gradients = [
            gradient
            for owner, gradient in zip(owners, of_weights)
            if gradient and owner is not None and owner.layer is call.layer
        ]
    return Pass(
        calls=calls,
        loss=float(loss),
        loss_values=statistics.values_of(loss.numpy()),
        weights=_values_of_weights(calls),
        variables=[
            (variables_lib.name_of(variable), owner and owner.path, gradient)
            for variable, owner, gradient in zip(weights, owners, of_weights)
        ],
        fitting_scale=fitting_scale,
    )


def _owners(calls, weights):
    """Return for each variable the first call of the innermost layer that has it."""
    first, found = {}, {}
    for call in calls:
        first.setdefault(id(call.layer), call)
    # From the outermost inwards, so that the innermost stays.
    for call in first.values():
        for variable in getattr(call.layer, "trainable_variables", ()):
            holder = found.get(id(variable))
            if holder is None or len(call.layer.trainable_variables) <= len(
                holder.layer.trainable_variables
            ):
                found[id(variable)] = call
    return [found.get(id(variable)) for variable in weights]


def _values_of_weights(calls):
    return {
        id(call.layer): [
            (variables_lib.name_of(variable), operations.values_of([raw]))
            for variable in getattr(call.layer, "weights", ())
            # A lookup table of tf_keras is a weight, but no variable.
            if hasattr(variable, "dtype")
            and (raw := variables_lib.raw(variable)).dtype.is_floating
        ]
        for call in calls
    }
