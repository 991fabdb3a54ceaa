"""Find the first gradient that overflows, is NaN, or vanishes in a backward pass."""

from tf_lso.debugging.report import First

# A gradient underflows if at least this share of its values is lost. Without scaling, the
# detector of Micikevicius et al. (2018, section 3.2) lost 31 % of the values and diverged.
UNDERFLOW = 0.25
_FLOAT16_MAX = 65504.0


def first_that_is_not_finite(seen):
    """Return a `First` for the first gradient that is not finite, or None."""
    found = _first_on_the_way_back(seen, lambda g: g.values.nonfinite)
    if found is None:
        return None
    call, where, gradient = found
    start = f"Gradients cease to be finite {where} {call}."
    if seen.fitting_scale is not None:
        message = (
            f"{start} At the loss scale {seen.scale:g} they overflow: a dynamic loss scale "
            "skips the step and shrinks, which is normal, and a fixed one must be lowered. "
            f"About {seen.fitting_scale:g} would fit."
        )
        return First("backward overflow", call.layer.name, call.path, message)
    kind = "backward overflow" if gradient.values.infinite else "backward nan"
    message = (
        f"{start} They are not finite without scaling either, so no loss scale helps: look "
        "for a root, a norm or a division near 0, whose derivative is not finite in "
        "float16, and for gradients beyond 65504."
    )
    return First(kind, call.layer.name, call.path, message)


def first_that_vanishes(seen):
    """Return a `First` for the first gradient that loses too many values, or None."""
    found = _first_on_the_way_back(seen, lambda g: g.lost >= UNDERFLOW)
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
    """Return the first bad gradient of a backward pass, and the call to blame.

    Args:
      seen: observe.Pass.
      is_bad: function of a `Gradient`.

    Returns:
      None, or a tuple of the `Call` to blame, words for messages, and the gradient. The words
      say where the gradient becomes bad: inside the layer, between the inner layers that the
      layer calls, behind the output of the layer, or only at a variable of the layer. "Behind
      the output" means the loss, or the sum of the gradients of several branches.
    """
    behind = None  # the call that the backward pass visited before `call`
    for call, begins in reversed(seen.moments):
        if call.is_container:
            continue  # models such as Sequential do not change gradients
        gradients = seen.gradients_of(call.inputs if begins else call.outputs)
        if bad := next(filter(is_bad, gradients), None):
            if begins:
                return call, "on the way back through", bad
            return *_source(seen, call, behind), bad
        behind = call if begins else behind
    # The gradients of all inputs and outputs are good. The gradient of a variable is a sum,
    # which may be bad nevertheless.
    for variable in reversed(seen.variables):
        for gradient in filter(is_bad, seen.gradients_of([variable.raw])):
            return variable.call, f"at the variable {variable.name} of", gradient
    return None


def _source(seen, call, behind):
    """Return the call to blame for a bad gradient of an output, and words for messages."""
    gradients = seen.gradients_of(behind.inputs) if behind else []
    if any(gradient.values.largest > _FLOAT16_MAX for gradient in gradients):
        # The gradient of a float32 layer is too large for the float16 layer before it.
        return behind, "on the way back through"
    if call.parent is not None and not call.parent.is_container:
        return call.parent, "between the layers called by"
    return call, "behind the output of"
