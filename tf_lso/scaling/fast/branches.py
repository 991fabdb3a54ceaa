"""A conditional that runs only one branch, in every mode."""

import tensorflow as tf

from tf_lso.scaling import report


def _shape_is_known(tensor):
    shape = getattr(tensor, "shape", None)
    is_sparse = isinstance(tensor, tf.IndexedSlices)
    return not is_sparse and shape is not None and shape.is_fully_defined()


def either(condition, true_fn, false_fn, of):
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
    if report.in_xla() and all(map(_shape_is_known, of)):
        return tf.switch_case(tf.cast(condition, tf.int32), [false_fn, true_fn])
    return tf.cond(condition, true_fn, false_fn)


def seldom(branch):
    """Return `branch` as a function of its own, for a branch that seldom runs.

    TensorFlow joins the operations of both branches into the graph around them, and
    passes over those of the other branch one by one. A function that it must not join
    is one operation.

    Args:
      branch: callable without arguments that returns tensors.
    """
    if tf.executing_eagerly() or report.in_xla():
        return branch
    if not tf.compat.v1.get_default_graph().building_function:
        return branch
    try:
        return tf.function(
            branch, autograph=False, experimental_attributes={"_noinline": True}
        )
    except ValueError:  # TensorFlow 2.12 takes no such attribute
        return branch
