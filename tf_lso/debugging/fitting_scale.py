"""The largest loss scale at which all gradients of a batch are finite."""

import bisect
import math

import tensorflow as tf

from tf_lso.debugging import statistics

# Where the search ends: a smaller scale is 0 in float16, and a larger one leaves no room
# in float32.
_SMALLEST, _LARGEST = 2.0**-24, 2.0**100


def search(gradients_at, scale, gradients):
    """Return the largest scale at which all gradients are finite, and the gradients at it.

    Both are None where no scale makes all of them finite, or only one at which what was
    not finite vanishes: what is not finite by itself may be finite times 0.

    Args:
      gradients_at: function of a scale, a float, that returns the gradients at it: a
        list of tensors, with None for what the loss does not depend on.
      scale: float, the loss scale. The scales that are tried are a power of two away.
      gradients: what `gradients_at(scale)` returned.
    """
    fits_already = _all_finite(gradients)
    if fits_already:
        powers = range(_headroom(scale, gradients) + 1)
    else:
        powers = range(math.ceil(math.log2(_SMALLEST / scale)), 0)

    def overflows(power):
        return not _all_finite(gradients_at(math.ldexp(scale, power)))

    fitting = bisect.bisect_left(powers, True, key=overflows)
    if not fitting:
        return None, None
    best_scale = math.ldexp(scale, powers[fitting - 1])
    best = gradients_at(best_scale)
    if not fits_already and _vanished(gradients, best):
        return None, None
    return best_scale, best


def _headroom(scale, gradients):
    """Return the power of two above which a float16 gradient overflows."""
    powers = [
        statistics.headroom(statistics.values_of(gradient.numpy()).largest)
        for gradient in gradients
        if gradient is not None and gradient.dtype == tf.float16
    ]
    limit = math.floor(math.log2(_LARGEST / scale))
    return max(0, min([limit, *(power for power in powers if power is not None)]))


def _vanished(nonfinite, finite):
    """Whether what overflowed is tiny at the largest scale that fits: none of it did."""
    largest = [
        statistics.values_of(after.numpy()).largest
        for before, after in zip(nonfinite, finite)
        if not _all_finite([before])
    ]
    return max(largest) < 2.0**statistics.SMALLEST_NORMAL


def _all_finite(gradients):
    return all(
        bool(tf.reduce_all(tf.math.is_finite(gradient)))
        for gradient in gradients
        if gradient is not None
    )
