"""Graphs that are made once, for all steps that are traced or run.

A step that is traced anew, for another optimizer or in another function, calls them.
"""

import functools

import tensorflow as tf


@functools.lru_cache(maxsize=1024)
def _graph(function, settings, dtypes, shapes):
    specs = map(tf.TensorSpec, shapes or [None] * len(dtypes), dtypes)
    # The graph must serve every device, even if a replica's thread makes it.
    with tf.init_scope(), tf.device(None):
        graph = tf.function(
            lambda *tensors: function(*settings, *tensors), autograph=False
        ).get_concrete_function(*specs)
    shapes = [output.shape for output in graph.outputs]
    return graph, [output.dtype for output in graph.outputs], shapes


def call(function, tensors, settings=(), shapes=None):
    """Return `function(*settings, *tensors)`, by a graph that is made once.

    Args:
      function: function of a module, without effects or variables, that returns a list
        of tensors.
      tensors: list of tensors.
      settings: tuple of hashable Python values.
      shapes: tuple of the shape of each tensor, as far as the graph may rely on it. By
        default it serves tensors of any shape.

    Returns:
      A list of tensors.
    """
    dtypes = tuple([tensor.dtype for tensor in tensors])
    graph, result_dtypes, result_shapes = _graph(function, settings, dtypes, shapes)
    # Calling the graph itself would take ten microseconds for each argument.
    results = tf.raw_ops.PartitionedCall(args=tensors, Tout=result_dtypes, f=graph)
    if not tf.executing_eagerly():
        for result, shape in zip(results, result_shapes):
            result.set_shape(shape)
    return results
