"""Numbers about the values of one tensor. NumPy only."""

import dataclasses
import math

import numpy as np

# The largest float16, and the exponents at which its ranges begin.
FLOAT16_MAX = 65504.0
SMALLEST_NORMAL = -14
SMALLEST_SUBNORMAL = -24


@dataclasses.dataclass(frozen=True)
class Values:
    """What a layer's outputs hold.

    Attributes:
      size: int, how many values.
      largest: float, the largest magnitude of the finite values, 0 if there are none.
      infinite: int, how many values are inf or -inf.
      nan: int, how many values are NaN.
      nonfinite: float, the share of values that are not finite.
    """

    size: int
    largest: float
    infinite: int
    nan: int
    nonfinite: float


@dataclasses.dataclass(frozen=True)
class Gradient:
    """What a gradient holds.

    Attributes:
      at_scale: `Values`, as the backward pass at the loss scale gave them.
      largest: float, the largest finite magnitude, unscaled.
      largest_at_scale: float, that times the loss scale; float16 ends at 65504.
      zero_without_scaling: float, the share of values that are 0 in float16, unscaled.
      zero_with_scaling: float, the share of values that are 0 in float16 at the scale.
      underflowed: float, of the values that are not 0 at the largest scale that fits,
        the share that is 0 at this scale.
      headroom: int, the power of two by which the gradient could still be multiplied in
        float16. Negative where it is too large already, None where all values are 0.
      exponents: dict, power of two -> how many magnitudes, unscaled and not 0, lie
        between it and the next one.
    """

    at_scale: Values
    largest: float
    largest_at_scale: float
    zero_without_scaling: float
    zero_with_scaling: float
    underflowed: float
    headroom: int | None
    exponents: dict[int, int]


def _wide(array):
    array = np.asarray(array)
    # bfloat16 is no dtype of NumPy's own, and float16 has no room for what is computed.
    return array if array.dtype == np.float64 else array.astype(np.float32)


def values_of(*arrays):
    """Return the `Values` of some arrays together."""
    flat = np.concatenate([np.zeros(0), *(_wide(array).ravel() for array in arrays)])
    infinite, nan = int(np.isinf(flat).sum()), int(np.isnan(flat).sum())
    return Values(
        size=flat.size,
        largest=float(np.abs(flat[np.isfinite(flat)]).max(initial=0)),
        infinite=infinite,
        nan=nan,
        nonfinite=(infinite + nan) / flat.size if flat.size else 0.0,
    )


def gradient_of(at_scale, scale, fitting, fitting_scale):
    """Return the `Gradient` of the arrays at the loss scale and at the fitting one, if any."""
    at_scale = _wide(at_scale)
    fitting = np.abs(_wide(fitting).astype(np.float64))
    unscaled = fitting / fitting_scale
    largest = values_of(unscaled).largest
    # `frexp` gives magnitude = fraction * 2**exponent with fraction in [0.5, 1).
    counted = unscaled[np.isfinite(unscaled) & (unscaled > 0)]
    exponents, counts = np.unique(np.frexp(counted)[1] - 1, return_counts=True)
    return Gradient(
        at_scale=values_of(at_scale),
        largest=largest,
        largest_at_scale=largest * scale,
        zero_without_scaling=_share(_is_zero_in_float16(unscaled)),
        zero_with_scaling=_share(_is_zero_in_float16(at_scale)),
        underflowed=_share(at_scale[fitting > 0] == 0),
        headroom=headroom(largest * scale),
        exponents=dict(zip(exponents.tolist(), counts.tolist())),
    )


def gradient_alone(array, scale, scaled):
    """Return the `Gradient` of an array of which no pass is known, still scaled or not."""
    at_scale = _wide(array) if scaled else _wide(array) * scale
    in_float16 = np.where(_is_zero_in_float16(at_scale), 0, at_scale)
    return gradient_of(in_float16, scale, at_scale, scale)


def headroom(largest):
    """Return the power of two by which a magnitude fits float16, None for 0."""
    return math.floor(math.log2(FLOAT16_MAX / largest)) if largest else None


def _is_zero_in_float16(values):
    with np.errstate(over="ignore"):
        return values.astype(np.float16) == 0


def _share(chosen):
    return float(chosen.mean()) if chosen.size else 0.0
