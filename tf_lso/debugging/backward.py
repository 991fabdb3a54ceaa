"""Find the first bad gradient in a backward pass, and the layer where it became bad.

A gradient is bad if it contains inf or NaN, or if many of its values become 0 in float16.
"""

import dataclasses

from tf_lso.debugging import observe
from tf_lso.debugging.report import First

_FLOAT16_MAX = 65504.0


def first_that_is_not_finite(seen):
    """Return a description (`First`) of the first gradient with inf or NaN, or None."""
    judged = dataclasses.replace(seen, gradients=seen.judged)
    found = _first_on_the_way_back(judged, lambda g: g.values.nonfinite)
    if found is None:
        return None
    call, where, gradient = found
    start = (
        f"At the loss scale {seen.judged_scale:g} the gradients stop being finite {where} "
        f"{call}."
    )
    kind = "backward overflow"
    if seen.fitting_scale is None:
        kind = kind if gradient.values.infinite else "backward nan"
        rest = (
            "No loss scale helps, because at smaller scales they become 0 or are still not "
            "finite: look for a root, a norm or a division near 0, whose derivative is not "
            "finite in float16."
        )
    elif seen.judged_scale == seen.scale and seen.scale > 1:
        rest = (
            "They overflow: a dynamic loss scale skips the step and shrinks, which is "
            "normal, and a fixed one must be lowered. About "
            f"{seen.fitting_scale:g} would fit."
        )
    else:
        rest = (
            f"They overflow, and about {seen.fitting_scale:g} would fit: pass it as "
            "initial_scale, and as min_scale if the loss scale is dynamic, since it stops "
            "at 1 by default. Or make the gradients smaller, in the layer or the loss."
        )
    return First(kind, call.layer.name, call.path, f"{start} {rest}")


def first_that_vanishes(seen):
    """Return a description (`First`) of the first gradient that underflows, or None."""
    found = _first_on_the_way_back(seen, lambda g: g.lost >= observe.UNDERFLOW)
    if found is None:
        return None
    call, where, gradient = found
    fitting = (
        "" if seen.fitting_scale is None else f", up to about {seen.fitting_scale:g}"
    )
    message = (
        f"At the loss scale {seen.scale:g} {gradient.lost:.0%} of the gradient's values "
        f"become 0 in float16 {where} {call}. A larger loss scale keeps them{fitting}."
    )
    return First("underflow", call.layer.name, call.path, message)


def _first_on_the_way_back(seen, is_bad):
    """Return a tuple (`Call` that made a gradient bad, phrase, the bad `Gradient`), or None.

    Messages join the phrase and the name of the call's layer, as in "behind the output of layer
    'dense'". In this example, the gradient of the layer's output was already bad, because of
    the loss or because it is the sum of the gradients of several branches.
    """
    # The layer call that follows `call` in the forward pass.
    behind = None
    for call, begins in reversed(seen.moments):
        if call.is_container:
            # A container such as Sequential only passes on gradients of its layers.
            continue
        gradients = seen.gradients_of(call.inputs if begins else call.outputs)
        if bad := next(filter(is_bad, gradients), None):
            if begins:
                return call, "in the backward pass through", bad
            return *_source(seen, call, behind), bad
        behind = call if begins else behind
    # The gradient of a variable is a sum of many terms, so it may be the only bad gradient.
    for variable in reversed(seen.variables):
        for gradient in filter(is_bad, seen.gradients_of([variable.raw])):
            return variable.call, f"at the variable {variable.name} of", gradient
    return None


def _source(seen, call, behind):
    """Return the layer call that made the gradient of `call`'s output bad, and a phrase."""
    gradients = seen.gradients_of(behind.inputs) if behind else []
    if any(gradient.values.largest > _FLOAT16_MAX for gradient in gradients):
        # The next layer computes in float32, and the gradient of its input is finite, but above
        # 65504. This gradient became inf when the backward pass cast it to float16.
        return behind, "in the backward pass through"
    if call.parent is not None and not call.parent.is_container:
        return call.parent, "between the layers called by"
    return call, "after the output of"
