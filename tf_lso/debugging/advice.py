"""What a report says about the first trouble, in words. No TensorFlow."""

import math

from tf_lso.debugging import statistics


def number(value):
    """Return a scale or a magnitude as text, powers of two as such from 2**11 on."""
    fraction, exponent = math.frexp(value)  # value = fraction * 2**exponent
    power = exponent - 1
    if fraction == 0.5 and (power > 10 or power < -3):
        return f"2**{power}"
    return f"{value:.4g}"


def of_input(what, values):
    """What is said where the data is not finite."""
    return (
        f"{what} holds {kinds(values)}, before any layer sees it. No loss scale helps: "
        "look for missing values and divisions by zero where the data is prepared."
    )


def of_forward(kind, values, call, is_output):
    """What is said where the forward pass is not finite.

    Args:
      kind: str, "forward overflow" or "forward nan".
      values: `Values` that were first not finite.
      call: the `Call` of the layer that made them; None where the loss did.
      is_output: bool, whether they are the output of that layer. If not, they go from
        its own code into a layer that it calls.
    """
    made = kinds(values)
    if call is None:
        return (
            f"All layers are finite, the loss holds {made}. No loss scale helps. Look at "
            "what the loss divides by and takes the logarithm of, for instance "
            "`from_logits=True` in place of a softmax, or an epsilon."
        )
    layer = _named(call)
    if is_output:
        said = f"The input of {layer} is finite, its output holds {made}. "
    else:
        begin = layer[0].upper() + layer[1:]
        said = f"{begin}, in its own code between the layers it calls, makes {made}. "
    said += "Scaling the loss cannot help: it changes only the backward pass. "
    is_float16 = call.compute_dtype == "float16"
    for name, held in call.weight_values():
        if held.nonfinite:
            return said + (
                f"The variable {name} itself holds {kinds(held)}: load weights from "
                "before it did, and find the step that wrote it."
            )
        if is_float16 and held.largest > statistics.FLOAT16_MAX:
            return said + (
                f"The variable {name} has values up to {number(held.largest)}, and "
                "float16 ends at 65504: lower the learning rate, or let the layer "
                'compute in float32 (dtype="float32").'
            )
    if kind == "forward nan":
        return said + (
            "It is NaN and no overflow: look for a division by zero, a logarithm or a "
            "root of a negative number, and add an epsilon that the dtype can hold "
            "(in float16 at least 1e-7)."
        )
    largest = call.input_values.largest
    said += f"Its input has values up to {number(largest)}"
    if is_float16 and largest > statistics.FLOAT16_MAX:
        return said + (
            ", and float16 ends at 65504: normalize them, or let the layer compute in "
            'float32 (dtype="float32").'
        )
    return said + (
        '. Let the layer compute in float32 (dtype="float32"), normalize its input, or '
        "look for what divides by zero."
    )


def of_backward(kind, call, where, scale, fitting):
    """What is said where the backward pass is not finite; see `diagnosis`."""
    layer = _named(call)
    said = {
        "after": f"The gradient of the output of {layer} is not finite already. ",
        "between": f"Between the layers that {layer} calls, gradients cease to be "
        "finite. ",
        "gradient": f"On the way back through {layer} the gradient ceases to be finite: "
        "that of its output is, that of its input or its weights is not. ",
    }[where]
    if kind == "backward nan":
        return said + (
            "It is NaN at every loss scale, so this is no overflow: look for a root, "
            "a norm or a division at 0, whose derivative is not finite."
        )
    if fitting is None:
        return said + (
            "It is not finite at any smaller loss scale either: look for a root, a "
            "norm or a division near 0, whose derivative is not finite in float16."
        )
    said += (
        f"At the loss scale {number(scale)} it overflows, which is normal: a dynamic "
        f"loss scale skips the step and shrinks. {number(fitting)} would fit."
    )
    if fitting < 1:
        said += " It is below 1, where a dynamic scale ends: set `min_scale` lower."
    return said


def of_underflow(share, call, where, scale, fitting):
    """What is said where a share of a gradient's values becomes 0; see `diagnosis`."""
    layer = _named(call)
    place = {
        "after": f"behind the output of {layer}",
        "between": f"between the layers that {layer} calls",
        "gradient": f"on the way back through {layer}",
    }[where]
    return (
        f"At the loss scale {number(scale)} {share:.0%} of the gradient's values become "
        f"0 in float16 {place}. A larger loss scale keeps them: up to {number(fitting)} "
        "fits this batch."
    )


def of_gradient(name, values, scale):
    """What is said of a gradient that is not finite, where no pass is known."""
    said = f"The gradient {name} holds {kinds(values)}. "
    if values.infinite:
        return said + (
            f"At the loss scale {number(scale)} it overflows. That is normal where a "
            "smaller scale fits: a dynamic loss scale skips the step and shrinks. "
            "`explain` finds the scale that fits, and the layer."
        )
    return said + (
        "If it does at a smaller loss scale too, it is no overflow: look for NaN in the "
        "data and the loss. `explain` tells, and names the layer."
    )


def of_lost_gradient(name, gradient, scale):
    """What is said of a gradient that is 0 in float16, where no pass is known."""
    return (
        f"At the loss scale {number(scale)} {gradient.underflowed:.0%} of the values of "
        f"the gradient {name} that are not 0 would be 0 in float16. Its largest value "
        f"has room for 2**{gradient.headroom} more: choose a larger loss scale."
    )


def of_nothing(scale, fitting):
    """What is said where nothing was found."""
    said = (
        "All values are finite, and few gradients that are not 0 become 0 in float16 at "
        f"{number(scale)}."
    )
    if fitting is not None and fitting > scale:
        said += f" The loss scale could grow to {number(fitting)} with this batch."
    return said


def kinds(values):
    """Return which nonfinite values there are: "inf", "NaN" or both."""
    names = [("inf", values.infinite), ("NaN", values.nan)]
    return " and ".join(name for name, count in names if count) or "no inf or NaN"


def _named(call):
    path = "" if call.path == call.name else f" ({call.path})"
    times = "" if call.number == 1 else f", call {call.number}"
    return f"layer '{call.name}'{path}{times}"
