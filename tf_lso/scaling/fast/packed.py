"""Many eager operations on small tensors, run in few calls.

An eager operation costs some ten microseconds whatever it computes, so that a model of
400 variables would spend milliseconds a step on asking.
"""

import functools

import tensorflow as tf

# No public API tells whether a tape or an accumulator records, for which each operation
# must be seen. tests/scaling/test_packed.py fails when this moves.
from tensorflow.python.eager import record

# Tensors that one call takes. Models of every size share the graphs of full calls, and
# those of the rest are as many as this; a graph takes some 50 kB for each tensor.
MOST = 64


@functools.lru_cache(maxsize=1024)
def _graph(function, count, dtypes):
    """`function` as a graph for tensors of these dtypes and of any shape."""
    specs = [tf.TensorSpec(None, dtype) for dtype in dtypes]

    def flat(*arguments):
        return tf.nest.flatten(function(list(arguments[:count]), *arguments[count:]))

    # For every device, also if a replica's thread is the first to ask.
    with tf.init_scope(), tf.device(None):
        graph = tf.function(flat, autograph=False).get_concrete_function(*specs)
    return graph, [output.dtype for output in graph.outputs]


def packed(function):
    """Return `function`, which in eager mode runs as an operation for `MOST` tensors.

    Args:
      function: takes a list of tensors, then tensors, and returns a list of tensors.
        It must not have effects or use variables. A long list is cut into parts of an
        even length, and the results are joined.
    """

    def of_part(tensors, others):
        arguments = [*tensors, *others]
        dtypes = tuple([argument.dtype for argument in arguments])
        graph, outputs = _graph(function, len(tensors), dtypes)
        # Not by calling the graph, which takes ten microseconds for each argument.
        return tf.raw_ops.PartitionedCall(args=arguments, Tout=outputs, f=graph)

    @functools.wraps(function)
    def run(tensors, *others):
        if not tensors or not tf.executing_eagerly() or record.could_possibly_record():
            return function(tensors, *others)
        parts = [tensors[i : i + MOST] for i in range(0, len(tensors), MOST)]
        return [result for part in parts for result in of_part(part, others)]

    return run
