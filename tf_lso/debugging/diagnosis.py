"""Where the trouble of a pass began, and of what kind it is. No TensorFlow."""

import dataclasses
import math

# From this share of lost values on, a gradient counts as underflowed. The detector of
# Micikevicius et al. (2018, section 3.2) lost 31 % of its gradient values without
# scaling, and diverged.
UNDERFLOW = 0.25


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a value became what it is.

    Attributes:
      kind: str, such as "forward overflow".
      call: the `Call` through which it became so; None where it is in no layer.
      values: `Values` or `Gradient`, what was seen there.
      where: str, "output", "between" (in the layer's own code, between the layers
        that it calls), "gradient", or "after" (behind the output of the layer: in the
        loss, or where gradients of several branches are added up).
    """

    kind: str
    call: object
    values: object
    where: str


def forward(calls, loss):
    """Return the `Place` where the forward pass first had a nonfinite value, or None.

    Args:
      calls: list of `Call`.
      loss: `Values` of the loss, which comes last.
    """
    moments = [(call.start, call, call.input_values, call.parent) for call in calls]
    moments += [(call.end, call, call.output_values, call) for call in calls]
    moments += [(math.inf, None, loss, None)]
    for _, call, values, cause in sorted(moments, key=lambda moment: moment[0]):
        if not values.nonfinite:
            continue
        # Inf leads to NaN, and not the other way: inf beside NaN is an overflow.
        overflow = values.infinite or (cause is not None and cause.overflowed)
        return Place(
            kind="forward overflow" if overflow else "forward nan",
            call=cause,
            values=values,
            where="output" if cause is call else "between",
        )
    return None


def backward(calls, fits):
    """Return the `Place` where the backward pass first had a nonfinite value, or None.

    Args:
      calls: list of `Call`, with their gradients.
      fits: bool, whether all is finite at some smaller scale.
    """
    found = _first(calls, lambda gradient: gradient.at_scale.nonfinite)
    if found is None:
        return None
    call, where, bad = found
    overflow = fits or any(gradient.at_scale.infinite for gradient in bad)
    kind = "backward overflow" if overflow else "backward nan"
    return Place(kind, call, bad[0], where)


def underflow(calls):
    """Return the `Place` where gradients first became 0, or None."""
    found = _first(calls, lambda gradient: gradient.underflowed >= UNDERFLOW)
    return found and Place("underflow", found[0], found[2][0], found[1])


def _first(calls, is_bad):
    """Return the call that is first on the way back, where, and its bad gradients."""

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
