"""What a report says about the first trouble, from what was measured."""

from tf_lso.debugging import statistics

_NO_SCALE = "Scaling the loss cannot help: it changes only the backward pass."
_FLOAT32 = 'let the layer compute in float32 (dtype="float32")'
_EPSILON = "add an epsilon that the dtype can hold (in float16 at least 1e-7)"

# A product of two values overflows float16 only if one of them is above 256, the root of
# 65536. A sum of many values, or a factor in the layer's own code, needs no such value.
_LARGE = 256.0

_PLACES = {
    "through": "on the way back through",
    "between": "between the layers called by",
    "behind": "behind the output of",
}


def of_healthy_pass(seen):
    """Return the sentence about a pass without trouble."""
    return (
        "All values are finite, and few gradients that are not 0 become 0 in float16 at "
        f"the loss scale {seen.scale:g}. Up to {seen.fitting_scale:g} fits this batch."
    )


def of_data(name, values):
    """Return advice about a batch that is not finite before any layer sees it."""
    return (
        f"{name} holds {_kinds(values)}, before any layer sees it. No loss scale helps: "
        "look for missing values and divisions by 0 where the data is prepared."
    )


def of_loss(values):
    """Return advice about a loss that is not finite although all layers are."""
    return (
        f"All layers are finite, the loss holds {_kinds(values)}. {_NO_SCALE} Compute the "
        "loss in float32: cast the outputs first, or give the last layer "
        'dtype="float32". Look also at what the loss divides by and takes the logarithm '
        "of: use for instance `from_logits=True` in place of a softmax, or an epsilon."
    )


def of_forward_pass(trouble):
    """Return advice about a `forward.Trouble`."""
    name, kinds = trouble.call, _kinds(trouble.values)
    if trouble.place == "cast":
        return (
            f"The input of {name} is finite, but too large for float16, which ends at "
            f"65504: the cast to float16 makes {kinds}. {_NO_SCALE} Normalize the input, "
            f"or {_FLOAT32}."
        )
    operation = f" The operation {trouble.operation} makes the first of them."
    made = f"{kinds}.{operation if trouble.operation else ''} {_NO_SCALE}"
    if trouble.place == "code":
        return (
            f"The code of {name} itself, between the layers it calls, makes {made} Keep "
            "the values smaller there, or cast them to float32 first."
        )
    start = f"The input of {name} is finite, its output holds {made}"
    return f"{start} {_cause(trouble)}"


def _cause(trouble):
    """Return why the output of a layer is not finite, and the remedy."""
    weights = trouble.call.weight_values()
    for name, held in weights:
        if held.nonfinite:
            return (
                f"The variable {name} itself holds {_kinds(held)}: load weights from "
                "before it did, and find the step that wrote it."
            )
    if not trouble.is_overflow:
        return (
            "It is NaN, but no overflow: look for a division by 0, or a logarithm or root "
            f"of a negative number, and {_EPSILON}."
        )
    if trouble.operation in ("Div", "RealDiv", "Reciprocal", "Rsqrt"):
        return f"It divides by 0 or by a value near 0: {_EPSILON}."
    return _cause_of_overflow(trouble.call, weights)


def _cause_of_overflow(call, weights):
    """Return which of the measured ranges explains an overflow, and the remedy."""
    inputs, weight, and_weights = call.input_values.largest, 0.0, "it has no weights"
    if weights:
        name, held = max(weights, key=lambda pair: pair[1].largest)
        weight, and_weights = (
            held.largest,
            f"its weights up to {held.largest:g} ({name})",
        )
    ranges = f"Its input has values up to {inputs:g}, and {and_weights}."
    if not any(tensor.dtype.name == "float16" for tensor in call.outputs):
        return f"{ranges} It does not compute in float16: look at its own code."
    if weight > statistics.FLOAT16_MAX:
        return (
            f"{ranges} Float16 ends at 65504, so it cannot hold the weights: lower the "
            f"learning rate, or {_FLOAT32}."
        )
    if max(inputs, weight) <= _LARGE:
        # Smaller inputs or weights are no remedy: they are not what is large.
        return (
            f"{ranges} These are not large, so what the layer computes from them, such as "
            "a product with a large factor, an exponential or a sum of many values, is "
            f"beyond 65504: make that smaller, or {_FLOAT32}."
        )
    if weight > inputs:
        return (
            f"{ranges} The weights are large: lower the learning rate, use weight decay, "
            f"or {_FLOAT32}."
        )
    return f"{ranges} The input is large: normalize it, or {_FLOAT32}."


def of_backward_pass(call, place, seen):
    """Return advice about gradients that are not finite at the loss scale."""
    start = f"Gradients cease to be finite {_PLACES[place]} {call}."
    if seen.fitting_scale is None:
        return (
            f"{start} They are not finite at any smaller loss scale either, so scaling is "
            "not the cause: look for a root, a norm or a division near 0, whose "
            "derivative is not finite in float16."
        )
    minimum = ""
    if seen.fitting_scale < 1:
        minimum = " It is below 1, where a dynamic scale ends: set `min_scale` lower."
    return (
        f"{start} At the loss scale {seen.scale:g} they overflow, which is normal: a "
        "dynamic loss scale skips the step and shrinks. "
        f"{seen.fitting_scale:g} would fit.{minimum}"
    )


def of_small_gradients(call, place, share, seen):
    """Return advice about gradients of which a share becomes 0 at the loss scale."""
    return (
        f"At the loss scale {seen.scale:g} {share:.0%} of the gradient's values become 0 "
        f"in float16 {_PLACES[place]} {call}. A larger loss scale keeps them: up "
        f"to {seen.fitting_scale:g} fits this batch."
    )


def place_of(first):
    """Return the kind of the first trouble and its layer."""
    where = f" in layer '{first.layer}'" if first.layer else ""
    return (first.kind or "nothing is wrong") + where


def _kinds(values):
    found = [("inf", values.infinite), ("NaN", values.nan)]
    return " and ".join(name for name, count in found if count)
