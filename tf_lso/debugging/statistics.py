"""Numbers about the values of a tensor. This module uses NumPy only."""

import dataclasses

import numpy as np

# The largest float16, and the exponents of its smallest normal and subnormal numbers.
FLOAT16_MAX = 65504.0
SMALLEST_NORMAL = -14
SMALLEST_SUBNORMAL = -24

# Makes the exponents of all float64 numbers positive, as `np.bincount` requires.
_OFFSET = 1100


@dataclasses.dataclass(frozen=True)
class Values:
    """The values of one or several tensors.

    Attributes:
      size: int, how many values there are.
      largest: float, the largest magnitude of the finite values, 0 if there are none.
      infinite: int, how many values are inf or -inf.
      nan: int, how many values are NaN.
      exponents: dict, power of two -> how many finite magnitudes, apart from 0, lie
        between this power and the next one.
    """

    size: int
    largest: float
    infinite: int
    nan: int
    exponents: dict[int, int]

    @property
    def nonfinite(self) -> float:
        """The share of values that are inf or NaN."""
        return (self.infinite + self.nan) / self.size if self.size else 0.0


@dataclasses.dataclass(frozen=True)
class Gradient:
    """The values of a gradient, with and without the loss scale.

    Attributes:
      unscaled: `Values`, measured at the largest scale that fits and divided by it.
      at_scale: `Values`, as the backward pass at the loss scale computed them.
      lost_without_scaling: float, the share of values that would become 0 in float16
        without a loss scale, of those that are not 0 at the largest scale that fits.
      lost: float, the share of the same values that became 0 at the loss scale.
    """

    unscaled: Values
    at_scale: Values
    lost_without_scaling: float
    lost: float


def values_of(*arrays):
    """Return the `Values` of some arrays together."""
    parts = [np.zeros(0, np.float32), *(_wide(array).ravel() for array in arrays)]
    flat = np.concatenate(parts)
    magnitudes = np.abs(flat[np.isfinite(flat)])
    # `frexp` returns magnitude = fraction * 2**exponent with a fraction in [0.5, 1).
    exponents = np.frexp(magnitudes[magnitudes > 0])[1] - 1
    counts = np.bincount(exponents + _OFFSET)
    return Values(
        size=flat.size,
        largest=float(magnitudes.max(initial=0)),
        infinite=int(np.isinf(flat).sum()),
        nan=int(np.isnan(flat).sum()),
        exponents={int(i) - _OFFSET: int(counts[i]) for i in np.flatnonzero(counts)},
    )


def gradient_of(at_scale, fitting, fitting_scale):
    """Return the `Gradient` of two arrays: at the loss scale, and at one that fits."""
    at_scale, fitting = _wide(at_scale), _wide(fitting)
    unscaled = fitting.astype(np.float64) / fitting_scale
    with np.errstate(over="ignore", invalid="ignore"):
        is_zero_in_float16 = unscaled.astype(np.float16) == 0
    is_known = np.abs(fitting) > 0
    return Gradient(
        unscaled=values_of(unscaled),
        at_scale=values_of(at_scale),
        lost_without_scaling=_share(is_zero_in_float16[is_known]),
        lost=_share(at_scale[is_known] == 0),
    )


def _share(chosen):
    return float(chosen.mean()) if chosen.size else 0.0


def _wide(array):
    array = np.asarray(array)
    # NumPy has no bfloat16, and float16 has no room for intermediate results.
    return array if array.dtype == np.float64 else array.astype(np.float32)
