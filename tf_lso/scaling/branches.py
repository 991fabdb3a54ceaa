"""A conditional that runs one of its branches in every mode."""

import tensorflow as tf

from tf_lso.scaling import report


def either(condition, true_fn, false_fn):
    """`tf.cond`, for branches that work on whole gradients or variables.

    XLA turns a `tf.cond` into both branches and a selection from their results, which
    for the update of an optimizer costs a copy of the variables. A `tf.switch_case` it
    leaves as it is.

    Args:
      condition: scalar bool tensor.
      true_fn: callable without arguments that returns tensors.
      false_fn: another one that returns the like.
    """
    if report.in_xla():
        return tf.switch_case(tf.cast(condition, tf.int32), [false_fn, true_fn])
    return tf.cond(condition, true_fn, false_fn)
