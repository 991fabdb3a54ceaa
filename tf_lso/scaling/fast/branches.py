"""A conditional that runs one of its branches in every mode."""

import tensorflow as tf

from tf_lso.scaling import report


def _shape_is_known(tensor):
    shape = getattr(tensor, "shape", None)
    is_sparse = isinstance(tensor, tf.IndexedSlices)
    return not is_sparse and shape is not None and shape.is_fully_defined()


def either(condition, true_fn, false_fn, of):
    """`tf.cond`, for branches that work on whole gradients or variables.

    XLA turns a `tf.cond` into both branches and a selection from their results, which
    for the update of an optimizer costs a copy of the variables. A `tf.switch_case` it
    leaves as it is; but a tensor whose shape is not known before it runs, as that of
    the different rows of slices, cannot go into one.

    Args:
      condition: scalar bool tensor.
      true_fn: callable without arguments that returns tensors.
      false_fn: another one that returns the like.
      of: list of the tensors and `tf.IndexedSlices` that the branches work on.
    """
    if report.in_xla() and all(map(_shape_is_known, of)):
        return tf.switch_case(tf.cast(condition, tf.int32), [false_fn, true_fn])
    return tf.cond(condition, true_fn, false_fn)
