"""Sums over replicas, of gradients of which the large are still scaled.

To unscale them after the sum saves an operation on each number of every replica. But
scaled gradients may have an infinite sum where the unscaled have a finite one; so where
a sum of scaled ones is not finite, the unscaled are added up anew.
"""

import functools
import itertools
import operator

import tensorflow as tf

from tf_lso.scaling import finite, replica, report
from tf_lso.scaling import gradients as gradients_lib

_LARGE = 2**16  # numbers, which take longer to divide than to pass a conditional


def _is_large(tensor):
    size = tensor.shape.num_elements()
    return size is None or size >= _LARGE


class LargeScaled:
    """The gradients of one replica, of which the large are taken as they were scaled.

    Attributes:
      tensors: list of dense tensors, to be summed over the replicas.
    """

    def __init__(self, unscaled, scaled, scale):
        self._waits = [_is_large(tensor) for tensor in unscaled]
        self._scale = scale
        self.tensors = [
            before if waits else after
            for waits, before, after in zip(self._waits, scaled, unscaled)
        ]

    def may_be_summed(self):
        """Return whether `chosen` can be had, and saves anything.

        The replicas must be of one process: those of others are not heard again. XLA
        would compute both sums.
        """
        return (
            any(self._waits)
            and finite.merging_is_needed()
            and replica.all_are_here()
            and not report.in_xla()
        )

    def _waiting(self, values):
        return list(itertools.compress(values, self._waits))

    def _with(self, values, waiting):
        waiting = iter(waiting)
        return [
            next(waiting) if waits else value
            for waits, value in zip(self._waits, values)
        ]

    def chosen(self, sums):
        """Return the sums of all, and by what the large ones are multiplied.

        Args:
          sums: list of the sums of `tensors`, the same on each replica.

        Returns:
          (sums, scale, proved): a list, a float32 scalar tensor, which is 1 where the
          unscaled gradients had to be added up anew, and a scalar bool tensor, which
          if True says that all sums are finite, unscaled too.
        """
        context = tf.distribute.get_replica_context()
        waiting, scale, proved = context.merge_call(
            _chosen,
            args=(self._waiting(sums), self._waiting(self.tensors), self._scale, sums),
        )
        return self._with(sums, waiting), scale, proved

    def unscaled(self, sums, scale):
        """Return `sums` with the large ones divided by `scale`."""
        waiting = gradients_lib.unscale_gradients(self._waiting(sums), scale)
        return self._with(sums, waiting)


def _chosen(strategy, waiting, tensors, scale, sums):
    proved = finite.proof_of_scaled(*finite.first_here((sums, scale)))
    parts = [strategy.experimental_local_results(tensor) for tensor in tensors]

    def here(waiting, parts, scale):
        return tf.cond(
            proved,
            lambda: (waiting, scale),
            lambda: (_unscaled_sums(parts, scale), tf.ones_like(scale)),
        )

    waiting, scale = strategy.extended.call_for_each_replica(
        here, args=(waiting, parts, scale)
    )
    return waiting, scale, proved


def _unscaled_sums(parts, scale):
    """The sums of some lists of tensors, each divided by the scale before."""
    unscaled = iter(gradients_lib.unscale_gradients(itertools.chain(*parts), scale))
    # No AddN, which in a graph stands for a reduction over replicas.
    return [
        functools.reduce(operator.add, itertools.islice(unscaled, len(each)))
        for each in parts
    ]
