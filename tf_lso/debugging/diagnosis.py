"""The first trouble: where it began, and of what kind it is. No TensorFlow."""

from tf_lso.debugging import advice, report, statistics

# The share of lost values. The detector of Micikevicius et al. (2018, section 3.2), which
# diverged without scaling, lost 31 %.
UNDERFLOW = 0.25


def first_of_pass(moments, loss, scale, fitting):
    """Return the `First` of a pass, of which the loss scale and the fitting one are known.

    `moments` are those of `instrumented_pass.run`, with gradients.
    """
    return (
        _forward(moments, statistics.values_of(loss))
        or _backward(moments, scale, fitting)
        or _underflow(moments, scale, fitting)
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
    return report.First(kind, call and call.layer.name, call and call.path, said)


def _nothing(scale, fitting):
    has_room = fitting is not None and fitting > scale
    parts = ("nothing", "room") if has_room else ("nothing",)
    return _first(None, None, *parts, scale=scale, fitting=fitting)


def _forward(moments, loss):
    for call, begins in moments:
        values = call.input_values if begins else call.output_values
        if values.nonfinite:
            # An input that is not finite was made by the code that calls the layer.
            call, place = (call.parent, "inside") if begins else (call, "output")
            # Inf leads to NaN, and not the other way: inf beside NaN is an overflow.
            overflow = values.infinite or call.overflowed
            kind = "forward overflow" if overflow else "forward nan"
            said = advice.say(place, "no scale", values=values, call=call)
            said += _cause(kind, call)
            return report.First(kind, call.layer.name, call.path, said)
    if loss.nonfinite:
        kind = "forward overflow" if loss.infinite else "forward nan"
        return _first(kind, None, "loss", values=loss)
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


def _backward(moments, scale, fitting):
    found = _first_on_the_way_back(moments, lambda g: g.at_scale.nonfinite)
    if found is None:
        return None
    call, place, bad = found
    overflow = fitting is not None or any(g.at_scale.infinite for g in bad)
    kind = "backward overflow" if overflow else "backward nan"
    parts = ["not finite", place, "at no scale" if fitting is None else kind]
    if fitting is not None and fitting < 1:
        parts.append("small fit")
    return _first(kind, call, *parts, scale=scale, fitting=fitting)


def _underflow(moments, scale, fitting):
    found = _first_on_the_way_back(moments, lambda g: g.underflowed >= UNDERFLOW)
    if found is None:
        return None
    call, place, bad = found
    facts = {"share": f"{bad[0].underflowed:.0%}", "scale": scale, "fitting": fitting}
    return _first("underflow", call, "become 0", place, "underflow", **facts)


def _first_on_the_way_back(moments, is_bad):
    """Return the call with the first bad gradient, where that is, and the gradients.

    It is in the layer itself ("gradient"), "between" the layers that the layer calls, or
    "after" its output: in the loss, or where gradients of branches are added up.
    """

    def bad(gradients):
        return [gradient for gradient in gradients if is_bad(gradient)]

    # A variable's gradient is the sum over all calls of its layer. Where a call got a
    # bad gradient from behind, this explains the sum.
    backward = [call for call, begins in reversed(moments) if not begins]
    explained = {id(call.layer) for call in backward if bad(call.output_gradients)}
    for call, begins in reversed(moments):
        found = bad(call.input_gradients if begins else call.output_gradients)
        if begins and id(call.layer) not in explained:
            found += bad(call.weight_gradients)
        if not found:
            continue
        if begins:
            return call, "gradient", found
        if call.parent is not None and not call.parent.is_container:
            return call.parent, "between", found
        # Behind the output: name the innermost layer that the output comes from.
        outer = {id(inner.parent) for inner in backward}
        leaves = [c for c in backward if id(c) not in outer and bad(c.output_gradients)]
        return next(iter(leaves), call), "after", found
    return None
