"""Find the first gradient of a backward pass that overflows, is NaN, or loses many values."""

from tf_lso.debugging.report import First

# A gradient counts as underflowing if at least this share of its values becomes 0 in float16.
# Without loss scaling, 31 % of the values became 0 in the detection network of Micikevicius et
# al. (2018, section 3.2), and its training diverged.
UNDERFLOW = 0.25
_FLOAT16_MAX = 65504.0


def first_that_is_not_finite(seen):
    """Return a description (`First`) of the first non-finite gradient, or None."""
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
    """Return a description (`First`) of the first gradient that underflows, or None.

    A gradient underflows if at least the share `UNDERFLOW` of its values becomes 0.
    """
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
    """Return the first bad gradient of a backward pass, and where this gradient became bad.

    Args:
      seen: observe.Pass.
      is_bad: function that returns whether a `Gradient` is bad.

    Returns:
      None if no gradient is bad. Otherwise a tuple (`Call`, phrase, `Gradient`). Messages join
      the phrase and the name of the call's layer, as in "behind the output of layer 'dense'".
      "Behind the output" stands for the loss, or for the sum of several branches' gradients.
    """
    behind = None  # the call that follows `call` in the forward pass
    for call, begins in reversed(seen.moments):
        if call.is_container:
            # Skip containers such as Sequential, which only pass on their layers' gradients.
            continue
        gradients = seen.gradients_of(call.inputs if begins else call.outputs)
        if bad := next(filter(is_bad, gradients), None):
            if begins:
                return call, "on the way back through", bad
            return *_source(seen, call, behind), bad
        behind = call if begins else behind
    # The gradients of all inputs and outputs are good. A variable's gradient may still be bad,
    # because this gradient is a sum of many terms.
    for variable in reversed(seen.variables):
        for gradient in filter(is_bad, seen.gradients_of([variable.raw])):
            return variable.call, f"at the variable {variable.name} of", gradient
    return None


def _source(seen, call, behind):
    """Return the call that made the gradient of `call`'s output bad, and a phrase.

    Messages put the phrase before the name of the returned call's layer. `behind` is the call
    that follows `call` in the forward pass, or None.
    """
    gradients = seen.gradients_of(behind.inputs) if behind else []
    if any(gradient.values.largest > _FLOAT16_MAX for gradient in gradients):
        # The layer of `behind` computes in float32, and the gradient of its input is above
        # 65504. This gradient became inf when it was cast to float16 for the layer of `call`.
        return behind, "on the way back through"
    if call.parent is not None and not call.parent.is_container:
        return call.parent, "between the layers called by"
    return call, "behind the output of"
