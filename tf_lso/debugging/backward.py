"""The backward pass, at the loss scale and at the largest one that fits."""

import math

import tensorflow as tf

from tf_lso.debugging import statistics
from tf_lso.scaling import gradients as gradients_lib

# Where the search for a scale ends: a smaller one is 0 in float16, and a larger one
# leaves no room in float32.
_SMALLEST, _LARGEST = 2.0**-24, 2.0**100


class Backward:
    """Gradients of one loss at any scale.

    Args:
      tape: persistent `tf.GradientTape` that recorded the loss.
      loss: scalar tensor.
      sources: list of tensors and variables.
    """

    def __init__(self, tape, loss, sources):
        self._recorded = tape
        self._loss = loss
        self._sources = sources

    def at(self, scale):
        """Return the gradients of the loss multiplied by a float, a list of tensors.

        They are of the values that slices hold. None stands for sources that the loss
        does not depend on.
        """
        # What the gradient of `loss * scale` begins with, in the dtype of the loss.
        seed = tf.cast(tf.constant(scale, tf.float32), self._loss.dtype)
        found = self._recorded.gradient(
            self._loss, self._sources, output_gradients=seed
        )
        found = gradients_lib.with_summed_rows(found)
        return [
            None if gradient is None else gradients_lib.values_of([gradient])[0]
            for gradient in found
        ]

    def fitting(self, scale, gradients):
        """Return the largest scale at which all is finite, and the gradients at it.

        The scale is the loss scale, at which these are the `gradients`, times a power of
        two. Both are None where no scale makes all of it finite, or only one at which it
        vanishes: what is not finite by itself may be finite times 0.
        """
        # Powers of two by which to multiply: one that is known to fit, and one that
        # is known not to.
        if all_finite(gradients):
            fits, best = 0, gradients
            too_large = self._room(scale, gradients) + 1
        else:
            fits = math.ceil(math.log2(_SMALLEST / scale))
            best, too_large = self.at(math.ldexp(scale, fits)), 0
            if not all_finite(best):
                return None, None
        power = too_large - 1  # often right at once
        while fits < power:
            tried = self.at(math.ldexp(scale, power))
            if all_finite(tried):
                fits, best = power, tried
            else:
                too_large = power
            power = (fits + too_large) // 2
        if fits < 0 and _vanished(gradients, best):
            return None, None
        return math.ldexp(scale, fits), best

    def _room(self, scale, gradients):
        """Return a power of two above which some float16 tensor overflows."""
        halves = [
            statistics.headroom(statistics.values_of(gradient.numpy()).largest)
            for gradient in gradients
            if gradient is not None and gradient.dtype == tf.float16
        ]
        limit = math.floor(math.log2(_LARGEST / scale))
        return max(0, min([limit, *(half for half in halves if half is not None)]))


def _vanished(nonfinite, finite):
    """Whether what overflowed is tiny at the largest scale that fits: none of it did."""
    largest = [
        statistics.values_of(after.numpy()).largest
        for before, after in zip(nonfinite, finite)
        if before is not None and not all_finite([before])
    ]
    return max(largest) < 2.0**statistics.SMALLEST_NORMAL


def all_finite(gradients):
    """Whether all values of a list of tensors are finite; None is."""
    return all(
        bool(tf.reduce_all(tf.math.is_finite(gradient)))
        for gradient in gradients
        if gradient is not None
    )
