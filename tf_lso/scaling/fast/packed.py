"""Run many eager operations on small tensors in few calls.

An eager operation costs about ten microseconds, however little it computes. With one for
each of 400 variables a step would take milliseconds longer.
"""

import functools

import tensorflow as tf

from tf_lso import tf_private

# The most tensors in one call. Models of all sizes share the graph of a full call, and
# the last, shorter call has at most this many different graphs. A graph takes about 50 kB
# for each tensor.
MOST = 64


@functools.lru_cache(maxsize=1024)
def _graph(function, count, dtypes):
    """Return `function` as a graph for tensors of these dtypes and of any shape."""
    specs = [tf.TensorSpec(None, dtype) for dtype in dtypes]

    def flat(*arguments):
        return tf.nest.flatten(function(list(arguments[:count]), *arguments[count:]))

    # The graph must serve every device, even if a replica's thread makes it.
    with tf.init_scope(), tf.device(None):
        graph = tf.function(flat, autograph=False).get_concrete_function(*specs)
    return graph, [output.dtype for output in graph.outputs]


def packed(function):
    """Return `function` such that in eager mode one call runs it on `MOST` tensors.

    Args:
      function: takes a list of tensors, then tensors, and returns a list of tensors.
        It must not have effects or use variables. Long lists are cut into parts of
        `MOST` tensors, an even number, so that pairs stay together.
    """

    def of_part(tensors, others):
        arguments = [*tensors, *others]
        dtypes = tuple([argument.dtype for argument in arguments])
        graph, outputs = _graph(function, len(tensors), dtypes)
        # Calling the graph itself would take ten microseconds for each argument.
        return tf.raw_ops.PartitionedCall(args=arguments, Tout=outputs, f=graph)

    @functools.wraps(function)
    def run(tensors, *others):
        # Tapes and accumulators must see each operation.
        if not tensors or not tf.executing_eagerly() or tf_private.is_recording():
            return function(tensors, *others)
        parts = [tensors[i : i + MOST] for i in range(0, len(tensors), MOST)]
        return [result for part in parts for result in of_part(part, others)]

    return run
