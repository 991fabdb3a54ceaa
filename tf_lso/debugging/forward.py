"""Find the first non-finite value of a forward pass, and what caused this value."""

import tensorflow as tf

from tf_lso.debugging import statistics
from tf_lso.debugging.report import First

_NO_SCALE = "Scaling the loss cannot help: it changes only the backward pass."
_FLOAT32 = 'let the layer compute in float32 (dtype="float32")'
_COMPUTED = (
    "what it computes from them, such as a product with a large factor, a division by a "
    "value near 0, an exponential or a sum of many values, is beyond 65504"
)
# Float16 can also hold an epsilon of 1e-7, but then even 0.01 / 1e-7 overflows.
_UNDEFINED = (
    "Look for a division by 0 or by a value near 0, or a logarithm or root of a negative "
    "number. Add an epsilon that float16 can hold, such as 1e-4 (1e-8 becomes 0)."
)

# A product of two values overflows float16 only if one of them is above 256, the square root of
# 65536. A sum of many values, or the layer's own code, can overflow without such a value.
_LARGE = 256.0


def first_in_data(batch):
    """Return a `First` for non-finite values in the batch (x, y, sample_weight), or None."""
    for name, data in zip(("x", "y", "sample_weight"), batch):
        parts = tf.nest.flatten(data, expand_composites=True)
        values = statistics.summarize(part for part in parts if part is not None)
        if values.nonfinite:
            message = (
                f"{name} contains {values.kinds}, before any layer sees it. No loss scale "
                "helps: look for missing values and divisions by 0 where the data is "
                "prepared."
            )
            return First("input", None, None, message)
    return None


def first_in_forward_pass(seen):
    """Return a `First` for the first inf or NaN in the layers or the loss, or None."""
    for call, begins in seen.moments:
        values = call.input_values if begins else call.output_values
        if values.nonfinite:
            return _in_input(call) if begins else _in_output(call)
    loss = statistics.summarize([seen.loss])
    if loss.nonfinite:
        message = (
            f"All layers are finite, but the loss is {loss.kinds}. {_NO_SCALE} Compute "
            "the loss in float32: cast the outputs first, or give the last layer "
            'dtype="float32". Look also at what the loss divides by and takes the '
            "logarithm of: use for instance `from_logits=True` instead of a softmax."
        )
        return First(_kind(loss.infinite > 0), None, None, message)
    return None


def _in_input(call):
    """Return a `First` for a layer call whose inputs have the first non-finite values."""
    values, is_overflow = call.input_values, call.input_values.infinite > 0
    made = f"makes {values.kinds}. {_NO_SCALE}"
    if call.parent is None or call.parent.is_container:
        # The inputs are the batch itself, or a container passed them on. They were finite until
        # Keras cast them to the dtype of this layer.
        message = (
            f"The input of {call} is finite, but too large for float16, which ends at "
            f"65504: the cast to float16 {made} Normalize the input, or {_FLOAT32}."
        )
        return First(_kind(is_overflow), call.layer.name, call.path, message)
    suspect = call.parent
    advice = _UNDEFINED
    if is_overflow:
        advice = (
            f"It receives finite values, but {_COMPUTED}: make that smaller, or cast the "
            "values to float32 first."
        )
    message = (
        f"The code of {suspect} itself, between the layers it calls, {made} {advice}"
    )
    return First(_kind(is_overflow), suspect.layer.name, suspect.path, message)


def _in_output(call):
    """Return a `First` for a layer call with finite inputs and non-finite outputs."""
    values = call.output_values
    # An overflow may also end as NaN, as in a softmax. So NaN counts as an overflow if inputs
    # or weights are large.
    is_overflow = values.infinite > 0 or max(_largest(call)) > _LARGE
    message = (
        f"The input of {call} is finite, but its output contains {values.kinds}. {_NO_SCALE} "
        f"{_cause(call, is_overflow)}"
    )
    if is_overflow and not values.infinite:
        message += f" Or the layer computes NaN without an overflow. {_UNDEFINED}"
    return First(_kind(is_overflow), call.layer.name, call.path, message)


def _kind(is_overflow):
    return "forward overflow" if is_overflow else "forward nan"


def _largest(call):
    weights = [values.largest for _, values in call.weight_values()]
    return call.input_values.largest, max(weights, default=0.0)


def _cause(call, is_overflow):
    """Return sentences that say why a layer's output contains inf or NaN, and what to do."""
    weights = call.weight_values()
    for name, values in weights:
        if values.nonfinite:
            return (
                f"The variable {name} itself contains {values.kinds}: load weights from "
                "before that, and find the step that wrote this value."
            )
    if not is_overflow:
        return _UNDEFINED
    inputs, weight = _largest(call)
    and_weights = "it has no weights"
    if weights:
        name, _ = max(weights, key=lambda pair: pair[1].largest)
        and_weights = f"its weights up to {weight:g} ({name})"
    ranges = f"Its input has values up to {inputs:g}, and {and_weights}."
    if not any(tensor.dtype.name == "float16" for tensor in call.outputs):
        return f"{ranges} It does not compute in float16: look at its own code."
    if max(inputs, weight) <= _LARGE:
        return (
            f"{ranges} These are not large, but {_COMPUTED}: make that smaller, or "
            f"{_FLOAT32}."
        )
    if weight > inputs:
        remedy = "The weights are large: lower the learning rate, use weight decay"
    else:
        remedy = "The input is large: normalize it"
    return f"{ranges} Float16 ends at 65504. {remedy}, or {_FLOAT32}."
