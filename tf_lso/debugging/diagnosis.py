"""Decide what the first trouble of a pass is, where it began, and of what kind it is."""

from tf_lso.debugging import advice, statistics
from tf_lso.debugging.report import First

# The share of lost values that counts as an underflow. The detector of Micikevicius et al.
# (2018, section 3.2), which diverged without scaling, lost 31 %.
UNDERFLOW = 0.25


def first_of(data, seen):
    """Return the `First` of a batch, {name: `Values`}, and of an `observe.Pass`."""
    return (
        _in_data(data)
        or _in_forward_pass(seen)
        or _in_backward_pass(seen)
        or _in_small_gradients(seen)
        or First(None, None, None, advice.of_healthy_pass(seen))
    )


def _in_data(data):
    for name, values in data.items():
        if values.nonfinite:
            return First("input", None, None, advice.of_data(name, values))
    return None


def _in_forward_pass(seen):
    if (trouble := seen.trouble) is not None:
        kind = "forward overflow" if trouble.is_overflow else "forward nan"
        return _in_layer(kind, trouble.call, advice.of_forward_pass(trouble))
    loss = statistics.values_of(seen.loss)
    if loss.nonfinite:
        kind = "forward overflow" if loss.infinite else "forward nan"
        return First(kind, None, None, advice.of_loss(loss))
    return None


def _in_backward_pass(seen):
    found = _first_on_the_way_back(seen, lambda g: g.at_scale.nonfinite)
    if found is None:
        return None
    call, place, gradient = found
    overflows = seen.fitting_scale is not None or gradient.at_scale.infinite
    kind = "backward overflow" if overflows else "backward nan"
    return _in_layer(kind, call, advice.of_backward_pass(call, place, seen))


def _in_small_gradients(seen):
    found = _first_on_the_way_back(seen, lambda g: g.lost >= UNDERFLOW)
    if found is None:
        return None
    call, place, gradient = found
    said = advice.of_small_gradients(call, place, gradient.lost, seen)
    return _in_layer("underflow", call, said)


def _in_layer(kind, call, message):
    return First(kind, call.layer.name, call.path, message)


def _first_on_the_way_back(seen, is_bad):
    """Return the call to blame for the first bad gradient, its place, and the gradient.

    The place is "through" the layer, "between" the layers that the layer calls, or
    "behind" its output: in the loss, or where gradients of several branches are summed.
    """

    def first_bad(gradients):
        return next((gradient for gradient in gradients if is_bad(gradient)), None)

    behind = None  # the call that the backward pass has just gone through
    for call, begins in reversed(seen.moments):
        if call.is_container:
            continue  # Keras's own models add nothing to the gradients of their layers
        if begins and (bad := first_bad(call.input_gradients)):
            return call, "through", bad
        if not begins and (bad := first_bad(call.output_gradients)):
            return *_source(call, behind), bad
        behind = call if begins else behind
    # The gradients of all outputs are good: a layer's own sum for a variable is not.
    owners = {call.path: call for call in reversed(seen.calls)}
    for variable in reversed(seen.variables):
        if variable.gradient and is_bad(variable.gradient):
            return owners[variable.layer], "through", variable.gradient
    return None


def _source(call, behind):
    """Return where the bad gradient of a call's output comes from: the call and the place."""
    largest = [g.at_scale.largest for g in behind.input_gradients] if behind else []
    if max(largest, default=0) > statistics.FLOAT16_MAX:
        # The gradient of a float32 layer is too large for float16, the dtype before it.
        return behind, "through"
    if call.parent is not None and not call.parent.is_container:
        return call.parent, "between"
    return call, "behind"
