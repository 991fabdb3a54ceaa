"""The first trouble of a pass: where it began, and of what kind it is. No TensorFlow."""

import math

from tf_lso.debugging import advice, report, statistics

# From this share of lost values on, a gradient counts as underflowed. The detector of
# Micikevicius et al. (2018, section 3.2) lost 31 % of its gradient values without
# scaling, and diverged.
UNDERFLOW = 0.25


def first_of_pass(calls, loss, scale, fitting):
    """Return the `First` of a pass.

    Args:
      calls: list of `Call` with their gradients.
      loss: float.
      scale: float, the loss scale.
      fitting: float, the largest scale at which all gradients are finite, or None.
    """
    return (
        _forward(calls, statistics.values_of(loss))
        or _backward(calls, scale, fitting)
        or _underflow(calls, scale, fitting)
        or _first_in(None, None, advice.of_nothing(scale, fitting))
    )


def _first_in(call, kind, message):
    return report.First(kind, call and call.name, call and call.path, message)


def _forward(calls, loss):
    moments = [(call.start, call, call.input_values, call.parent) for call in calls]
    moments += [(call.end, call, call.output_values, call) for call in calls]
    moments += [(math.inf, None, loss, None)]
    for _, call, values, cause in sorted(moments, key=lambda moment: moment[0]):
        if not values.nonfinite:
            continue
        # Inf leads to NaN, and not the other way: inf beside NaN is an overflow.
        overflow = values.infinite or (cause is not None and cause.overflowed)
        kind = "forward overflow" if overflow else "forward nan"
        message = advice.of_forward(kind, values, cause, is_output=cause is call)
        return _first_in(cause, kind, message)
    return None


def _backward(calls, scale, fitting):
    found = _first_on_the_way_back(calls, lambda g: g.at_scale.nonfinite)
    if found is None:
        return None
    call, where, bad = found
    overflow = fitting is not None or any(g.at_scale.infinite for g in bad)
    kind = "backward overflow" if overflow else "backward nan"
    message = advice.of_backward(kind, call, where, scale, fitting)
    return _first_in(call, kind, message)


def _underflow(calls, scale, fitting):
    found = _first_on_the_way_back(calls, lambda g: g.underflowed >= UNDERFLOW)
    if found is None:
        return None
    call, where, bad = found
    message = advice.of_underflow(bad[0].underflowed, call, where, scale, fitting)
    return _first_in(call, "underflow", message)


def _first_on_the_way_back(calls, is_bad):
    """Return the call with the first bad gradient, where that is, and the gradients.

    The place is "gradient" (in the layer itself), "between" (in the layer's own code,
    between the layers that it calls), or "after" (behind the output of the layer: in
    the loss, or where gradients of several branches are added up).
    """

    def bad(gradients):
        return [gradient for gradient in gradients if is_bad(gradient)]

    # A variable's gradient is the sum over all calls of its layer. Where a call got a
    # bad gradient from behind, this explains the sum.
    explained = {id(call.layer) for call in calls if bad(call.output_gradients)}
    moments = [(call.end, call, bad(call.output_gradients)) for call in calls]
    for call in calls:
        own = [] if id(call.layer) in explained else bad(call.weight_gradients)
        moments.append((call.start, call, bad(call.input_gradients) + own))
    moments.sort(key=lambda moment: -moment[0])
    for moment, call, found in moments:
        if not found:
            continue
        if moment == call.start:
            return call, "gradient", found
        if call.parent is not None and not call.parent.is_container:
            return call.parent, "between", found
        # Behind the output: name the innermost layer that the output comes from.
        for inner in sorted(calls, key=lambda inner: -inner.end):
            is_leaf = not any(other.parent is inner for other in calls)
            if is_leaf and bad(inner.output_gradients):
                return inner, "after", found
        return call, "after", found
    return None
