"""The first trouble: where it began, and of what kind it is. No TensorFlow."""

import math

from tf_lso.debugging import advice, report, statistics

# The share of lost values. The detector of Micikevicius et al. (2018, section 3.2), which
# diverged without scaling, lost 31 %.
UNDERFLOW = 0.25


def first_of_pass(calls, loss, scale, fitting):
    """Return the `First` of a pass: its calls and loss, the loss scale and the fitting one."""
    return (
        _forward(calls, statistics.values_of(loss))
        or _backward(calls, scale, fitting)
        or _underflow(calls, scale, fitting)
        or _nothing(scale, fitting)
    )


def first_of_data(arrays):
    """Return the `First` of the data, a dict of name -> array; None if it is finite."""
    for name, array in arrays.items():
        values = statistics.values_of(array)
        if values.nonfinite:
            return _first("input", None, "input", name=name, values=values)
    return None


def first_of_gradients(variables, scale):
    """Return the `First` of `VariableGradient`s of which no pass is known."""
    known = [one for one in reversed(variables) if one.gradient is not None]
    for one in known:
        values = one.gradient.at_scale
        if values.nonfinite:
            kind = "backward overflow" if values.infinite else "backward nan"
            return _alone(kind, one, values=values, scale=scale)
    for one in known:
        if (lost := one.gradient.underflowed) >= UNDERFLOW:
            facts = {"share": f"{lost:.0%}", "headroom": one.gradient.headroom}
            return _alone("underflow", one, scale=scale, **facts)
    return _nothing(scale, None)


def _alone(kind, variable, **facts):
    said = advice.say(f"{kind} alone", name=variable.name, **facts)
    return report.First(kind, variable.name, variable.name, said)


def _first(kind, call, *parts, **facts):
    said = advice.say(*parts, call=call, **facts)
    return report.First(kind, call and call.name, call and call.path, said)


def _nothing(scale, fitting):
    has_room = fitting is not None and fitting > scale
    parts = ("nothing", "room") if has_room else ("nothing",)
    return _first(None, None, *parts, scale=scale, fitting=fitting)


def _forward(calls, loss):
    moments = [(call.start, call.input_values, call.parent, "inside") for call in calls]
    moments += [(call.end, call.output_values, call, "output") for call in calls]
    moments.sort(key=lambda moment: moment[0])
    for _, values, call, place in [*moments, (math.inf, loss, None, "loss")]:
        if not values.nonfinite:
            continue
        # Inf leads to NaN, and not the other way: inf beside NaN is an overflow.
        overflow = values.infinite or (call is not None and call.overflowed)
        kind = "forward overflow" if overflow else "forward nan"
        if call is None:
            return _first(kind, None, "loss", values=values)
        said = advice.say(place, "no scale", values=values, call=call)
        return report.First(kind, call.name, call.path, said + _cause(kind, call))
    return None


def _cause(kind, call):
    is_float16 = getattr(call.layer, "compute_dtype", None) == "float16"
    for name, held in call.weight_values():
        if held.nonfinite:
            return advice.say("bad weight", name=name, values=held)
        if is_float16 and held.largest > statistics.FLOAT16_MAX:
            return advice.say("large weight", name=name, largest=held.largest)
    largest = call.input_values.largest
    if kind == "forward overflow" and is_float16 and largest > statistics.FLOAT16_MAX:
        kind = "large input"
    return advice.say(kind, largest=largest)


def _backward(calls, scale, fitting):
    found = _first_on_the_way_back(calls, lambda g: g.at_scale.nonfinite)
    if found is None:
        return None
    call, place, bad = found
    overflow = fitting is not None or any(g.at_scale.infinite for g in bad)
    kind = "backward overflow" if overflow else "backward nan"
    parts = [place, "at no scale" if fitting is None else kind]
    if fitting is not None and fitting < 1:
        parts.append("small fit")
    return _first(kind, call, *parts, scale=scale, fitting=fitting)


def _underflow(calls, scale, fitting):
    found = _first_on_the_way_back(calls, lambda g: g.underflowed >= UNDERFLOW)
    if found is None:
        return None
    call, place, bad = found
    parts = ("underflow", f"lost {place}", "larger scale")
    facts = {"share": f"{bad[0].underflowed:.0%}", "scale": scale, "fitting": fitting}
    return _first("underflow", call, *parts, **facts)


def _first_on_the_way_back(calls, is_bad):
    """Return the call with the first bad gradient, where that is, and the gradients.

    It is in the layer itself ("gradient"), "between" the layers that the layer calls, or
    "after" its output: in the loss, or where gradients of branches are added up.
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
