"""Join small tensors of a graph into one, so that fewer operations are launched.

The executor takes about a microsecond to launch an operation. In that time it could have
read a thousand numbers. XLA joins operations by itself.
"""

import tensorflow as tf

from tf_lso.scaling import report

SMALL = 4096  # copying up to this many numbers takes less time than it saves
FEWEST = 8  # joining fewer tensors takes more operations than it saves


def _groups(tensors):
    """Return lists of positions: many small tensors of one dtype together, others alone."""
    groups = {}
    for position, tensor in enumerate(tensors):
        size = tensor.shape.num_elements()
        small = size is not None and size <= SMALL
        # The name, since a dtype equals its number, which may also be a position.
        key = tensor.dtype.name if small else position
        groups.setdefault(key, []).append(position)
    return [
        part
        for group in groups.values()
        for part in ([group] if len(group) >= FEWEST else [[i] for i in group])
    ]


def _flat(tensors):
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)


def _launches_each():
    """Whether TensorFlow will launch each operation of the traced code by itself."""
    return not tf.executing_eagerly() and not report.in_xla()


def joined(tensors):
    """Return tensors with the same numbers; in a traced function they are fewer."""
    if not _launches_each():
        return tensors
    members = [[tensors[i] for i in group] for group in _groups(tensors)]
    return [group[0] if len(group) == 1 else _flat(group) for group in members]


def mapped(function, tensors):
    """Return the result of `function` for each tensor.

    Args:
      function: callable that maps a tensor number by number and keeps its shape.
      tensors: list of tensors.
    """
    if not _launches_each():
        return [function(tensor) for tensor in tensors]
    results = [None] * len(tensors)
    for group in _groups(tensors):
        if len(group) == 1:
            results[group[0]] = function(tensors[group[0]])
            continue
        shapes = [tensors[i].shape for i in group]
        sizes = [shape.num_elements() for shape in shapes]
        parts = tf.split(function(_flat([tensors[i] for i in group])), sizes)
        for i, part, shape in zip(group, parts, shapes):
            results[i] = tf.reshape(part, shape)
    return results
