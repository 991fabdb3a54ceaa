"""Run many eager operations on small tensors in few calls.

An eager operation costs about ten microseconds, however little it computes. With one for
each of 400 variables a step would take milliseconds longer.
"""

import functools

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.scaling.fast import shared

# The most tensors in one call. Models of all sizes share the graph of a full call, and
# the last, shorter call has at most this many different graphs. A graph takes about 50 kB
# for each tensor.
MOST = 64


def _of_list(function, count, *arguments):
    return tf.nest.flatten(function(list(arguments[:count]), *arguments[count:]))


def packed(function):
    """Return `function` such that in eager mode one call runs it on `MOST` tensors.

    Args:
      function: takes a list of tensors, then tensors, and returns a list of tensors.
        It must not have effects or use variables. Long lists are cut into parts of
        `MOST` tensors, an even number, so that pairs stay together.
    """

    def of_part(tensors, others):
        return shared.call(_of_list, [*tensors, *others], (function, len(tensors)))

    @functools.wraps(function)
    def run(tensors, *others):
        # Tapes and accumulators must see each operation.
        if not tensors or not tf.executing_eagerly() or tf_private.is_recording():
            return function(tensors, *others)
        parts = [tensors[i : i + MOST] for i in range(0, len(tensors), MOST)]
        return [result for part in parts for result in of_part(part, others)]

    return run
