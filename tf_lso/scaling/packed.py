"""Many eager operations on small tensors, run in few calls.

An eager operation costs some ten microseconds whatever it computes, so that a model of
400 variables would spend milliseconds a step on asking.

A call takes a graph for its number of tensors, and the process keeps every graph that
it has made. Graphs are made for a few numbers only, so that all models share them: a
long list is cut, and what is between two numbers is filled up with empty tensors.
"""

import functools

import tensorflow as tf

# No public API tells whether a tape or an accumulator records, for which each operation
# must be seen. tests/scaling/test_packed.py fails when this moves.
from tensorflow.python.eager import record

# Steps of a half or a third: what is filled up costs less than one call more.
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@functools.cache
def _graph(function, size, dtypes, others):
    """`function` as a graph for `size` times tensors of these dtypes, of any shape."""
    count = size * len(dtypes)
    specs = [tf.TensorSpec(None, dtype) for dtype in (*dtypes * size, *others)]

    def flat(*arguments):
        return tf.nest.flatten(function(list(arguments[:count]), *arguments[count:]))

    # For every device, also if a replica's thread is the first to ask.
    with tf.init_scope(), tf.device(None):
        graph = tf.function(flat, autograph=False).get_concrete_function(*specs)
    return graph, [output.dtype for output in graph.outputs]


@functools.cache
def _empty(dtype):
    with tf.device("CPU"):
        return tf.zeros([0], dtype)


def _by_dtype(tensors, unit):
    """Return the tensors by the dtypes of their unit, a dict, and their old places."""
    dtypes = [tensor.dtype for tensor in tensors]
    first = dtypes[:unit]
    if dtypes == first * (len(tensors) // unit):  # as in most models; quickly told
        return {tuple(first): list(tensors)}, None
    groups = {}
    for start in range(0, len(tensors), unit):
        places = groups.setdefault(tuple(dtypes[start : start + unit]), [])
        places.extend(range(start, start + unit))
    found = {key: [tensors[i] for i in places] for key, places in groups.items()}
    return found, [place for places in groups.values() for place in places]


def _outputs(function, unit, dtypes, tensors, others):
    """Yields what `function` returns of each part, and the size of the part."""
    of_others = tuple([other.dtype for other in others])
    most = SIZES[-1] * unit
    for first in range(0, len(tensors), most):
        part = tensors[first : first + most]
        count = len(part) // unit
        size = next(size for size in SIZES if size >= count)
        part += list(map(_empty, dtypes)) * (size - count)
        graph, outputs = _graph(function, size, dtypes, of_others)
        # Not by calling the graph, which takes ten microseconds for each argument.
        yield (
            tf.raw_ops.PartitionedCall(args=[*part, *others], Tout=outputs, f=graph),
            count * unit,
        )


def _are_called_directly(tensors):
    return not tensors or not tf.executing_eagerly() or record.could_possibly_record()


def packed(function=None, *, unit=1):
    """Return `function`, which in eager mode runs as few operations.

    Args:
      function: takes a list of tensors, then tensors, and returns a list of as many
        tensors as the first. It takes each `unit` of them for itself, and tensors of
        the shape [0] too. It must not have effects or use variables.
      unit: how many neighbors belong together.
    """
    if function is None:
        return functools.partial(packed, unit=unit)

    @functools.wraps(function)
    def run(tensors, *others):
        if _are_called_directly(tensors):
            return function(tensors, *others)
        groups, places = _by_dtype(tensors, unit)
        results = [
            result
            for dtypes, group in groups.items()
            for outputs, count in _outputs(function, unit, dtypes, group, others)
            for result in outputs[:count]
        ]
        if places is None:
            return results
        return [
            result
            for _, result in sorted(zip(places, results), key=lambda item: item[0])
        ]

    return run


def packed_verdict(function):
    """The same for a function of a list of tensors that returns one bool tensor.

    It must be true of a list where it is true of each part of it.
    """

    @functools.wraps(function)
    def run(tensors):
        if _are_called_directly(tensors):
            return function(tensors)
        groups, _ = _by_dtype(tensors, 1)
        found = [
            verdict
            for dtypes, group in groups.items()
            for (verdict,), _ in _outputs(function, 1, dtypes, group, ())
        ]
        return tf.reduce_all(tf.stack(found)) if len(found) > 1 else found[0]

    return run
