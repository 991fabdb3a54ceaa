"""What only speed needs. Each trick says what a step would take without it."""

import functools

import tensorflow as tf

from tf_lso import tf_private

# The most tensors in one call of `packed`. Models of all sizes share the graph of a full
# call, and the last, shorter call has at most this many different graphs. A graph takes
# about 50 kB for each tensor.
MOST = 64


def either(condition, true_fn, false_fn, of=()):
    """Run one of two branches that work on whole gradients or variables.

    Outside XLA this is `tf.cond`. XLA would run both branches of a `tf.cond` and select
    from their results, which copies all variables of an optimizer. XLA keeps a
    `tf.switch_case` as it is. But a `tf.switch_case` cannot take a tensor whose shape is
    unknown before the step runs, such as the summed rows of slices.

    Args:
      condition: scalar bool tensor.
      true_fn: callable without arguments that returns tensors.
      false_fn: callable without arguments that returns tensors of the same dtypes.
      of: list of the tensors and `tf.IndexedSlices` that the branches work on.

    Returns:
      What the branch that ran returned.
    """
    if in_xla() and all(map(_shape_is_known, of)):
        return tf.switch_case(tf.cast(condition, tf.int32), [false_fn, true_fn])
    return tf.cond(condition, true_fn, false_fn)


def seldom(branch):
    """Return `branch`, which seldom runs, as a function that is one operation.

    TensorFlow joins the operations of both branches into the graph around them, and
    passes over those of the other branch one by one. Without this a step of 400 small
    variables added 1.25 of what the framework's own wrapper adds, and 0.85 with it.
    """
    if tf.executing_eagerly() or in_xla():
        return branch
    if not tf.compat.v1.get_default_graph().building_function:
        return branch
    try:
        return tf.function(
            branch, autograph=False, experimental_attributes={"_noinline": True}
        )
    except ValueError:  # TensorFlow 2.12 takes no such attribute
        return branch


def in_xla():
    """Return whether the code being traced is compiled by XLA (`jit_compile=True`)."""
    return not tf.executing_eagerly() and tf_private.in_xla(
        tf.compat.v1.get_default_graph()
    )


def _shape_is_known(tensor):
    shape = getattr(tensor, "shape", None)
    is_sparse = isinstance(tensor, tf.IndexedSlices)
    return not is_sparse and shape is not None and shape.is_fully_defined()


@functools.lru_cache(maxsize=1024)
def _graph(function, settings, dtypes):
    specs = [tf.TensorSpec(None, dtype) for dtype in dtypes]
    # The graph must serve every device, even if a replica's thread makes it.
    with tf.init_scope(), tf.device(None):
        graph = tf.function(
            lambda *tensors: function(*settings, *tensors), autograph=False
        ).get_concrete_function(*specs)
    shapes = [output.shape for output in graph.outputs]
    return graph, [output.dtype for output in graph.outputs], shapes


def call(function, tensors, *settings):
    """Return `function(*settings, *tensors)`, by a graph that is made once.

    A step that is traced anew, for another optimizer or in another function, calls it.

    Args:
      function: function of a module, without effects or variables, that returns a list
        of tensors.
      tensors: list of tensors, which may have other shapes in the next call.
      *settings: hashable Python values.
    """
    dtypes = tuple([tensor.dtype for tensor in tensors])
    graph, result_dtypes, result_shapes = _graph(function, settings, dtypes)
    # Calling the graph itself would take ten microseconds for each argument.
    results = tf.raw_ops.PartitionedCall(args=tensors, Tout=result_dtypes, f=graph)
    if not tf.executing_eagerly():
        for result, shape in zip(results, result_shapes):
            result.set_shape(shape)
    return results


def _of_list(function, count, *arguments):
    return tf.nest.flatten(function(list(arguments[:count]), *arguments[count:]))


def packed(function):
    """Return `function` such that in eager mode one call runs it on `MOST` tensors.

    An eager operation costs about ten microseconds, however little it computes.

    Args:
      function: takes a list of tensors, then tensors, and returns a list of tensors.
        It must not have effects or use variables. Long lists are cut into parts of
        `MOST` tensors, an even number, so that pairs stay together.
    """

    @functools.wraps(function)
    def run(tensors, *others):
        # Tapes and accumulators must see each operation.
        if not tensors or not tf.executing_eagerly() or tf_private.is_recording():
            return function(tensors, *others)
        parts = [tensors[i : i + MOST] for i in range(0, len(tensors), MOST)]
        return [
            result
            for part in parts
            for result in call(_of_list, [*part, *others], function, len(part))
        ]

    return run
