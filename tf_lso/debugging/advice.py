"""What a report says about the first trouble, in words. No TensorFlow."""

import math

_FLOAT32 = 'let the layer compute in float32 (dtype="float32")'

# What `say` says, in parts.
_TEXTS = {
    "input": "{name} holds {kinds}, before any layer sees it. No loss scale helps: look "
    "for missing values and divisions by zero where the data is prepared.",
    "loss": "All layers are finite, the loss holds {kinds}. No loss scale helps. Look at "
    "what the loss divides by and takes the logarithm of, for instance "
    "`from_logits=True` in place of a softmax, or an epsilon.",
    # Forward: the place and the cause.
    "output": "The input of {layer} is finite, its output holds {kinds}. ",
    "inside": "The code of {layer} itself, between the layers it calls, makes {kinds}. ",
    "no scale": "Scaling the loss cannot help: it changes only the backward pass. ",
    "bad weight": "The variable {name} itself holds {kinds}: load weights from before it "
    "did, and find the step that wrote it.",
    "large weight": "The variable {name} has values up to {largest}, and float16 ends at "
    f"65504: lower the learning rate, or {_FLOAT32}.",
    "forward nan": "It is NaN and no overflow: look for a division by zero, a logarithm "
    "or a root of a negative number, and add an epsilon that the dtype can hold (in "
    "float16 at least 1e-7).",
    "large input": "Its input has values up to {largest}, and float16 ends at 65504: "
    f"normalize them, or {_FLOAT32}.",
    "forward overflow": "Its input has values up to {largest}. Normalize it, "
    f"{_FLOAT32}, or look for what divides by zero.",
    # Backward: what happens, the place, see `diagnosis`, and the cause.
    "not finite": "Gradients cease to be finite ",
    "become 0": "At the loss scale {scale} {share} of the gradient's values become 0 in "
    "float16 ",
    "after": "behind the output of {layer}. ",
    "between": "between the layers that {layer} calls. ",
    "gradient": "on the way back through {layer}. ",
    "at no scale": "They are not finite at any smaller loss scale either, so scaling is "
    "not the cause: look for a root, a norm or a division near 0, whose derivative is "
    "not finite in float16.",
    "backward overflow": "At the loss scale {scale} they overflow, which is normal: a "
    "dynamic loss scale skips the step and shrinks. {fitting} would fit.",
    "small fit": " It is below 1, where a dynamic scale ends: set `min_scale` lower.",
    "underflow": "A larger loss scale keeps them: up to {fitting} fits this batch.",
    # Of gradients alone.
    "backward overflow alone": "The gradient {name} holds {kinds}. At the loss scale "
    "{scale} it overflows. That is normal where a smaller scale fits: a dynamic loss "
    "scale skips the step and shrinks. `explain` finds the scale that fits, and the "
    "layer.",
    "backward nan alone": "The gradient {name} holds {kinds}. If it does at a smaller "
    "loss scale too, it is no overflow: look for NaN in the data and the loss. `explain` "
    "tells, and names the layer.",
    "underflow alone": "At the loss scale {scale} {share} of the values of the "
    "gradient {name} that are not 0 would be 0 in float16. Its largest value has room "
    "for 2**{headroom} more: choose a larger loss scale.",
    "nothing": "All values are finite, and few gradients that are not 0 become 0 in "
    "float16 at {scale}.",
    "room": " The loss scale could grow to {fitting} with this batch.",
}


def place(first):
    """Return the kind of the first trouble and its layer."""
    where = f" in layer '{first.layer}'" if first.layer else ""
    return (first.kind or "nothing is wrong") + where


def say(*parts, values=None, call=None, **facts):
    """Return texts in one: `values` fill in {kinds}, `call` {layer}, `facts` the rest."""
    for name, fact in facts.items():
        if isinstance(fact, float):
            facts[name] = number(fact)
    if values is not None:
        kinds = [("inf", values.infinite), ("NaN", values.nan)]
        facts["kinds"] = " and ".join(name for name, count in kinds if count)
    if call is not None:
        name = call.layer.name
        path = "" if call.path == name else f" ({call.path})"
        times = "" if call.number == 1 else f", call {call.number}"
        facts["layer"] = f"layer '{name}'{path}{times}"
    return "".join(_TEXTS[part] for part in parts).format(**facts)


def number(value):
    """Return a scale or a magnitude as text, powers of two as such from 2**11 on."""
    fraction, exponent = math.frexp(value)  # value = fraction * 2**exponent
    power = exponent - 1
    if fraction == 0.5 and (power > 10 or power < -3):
        return f"2**{power}"
    return f"{value:.4g}"
