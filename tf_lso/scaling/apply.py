"""Apply a step or skip it, on one verdict for all replicas."""

import numbers

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.scaling.fast import branches


def after(operations, value):
    """Return `value` as a tensor that depends on `operations`.

    In a graph the tensor exists only after they have run. Functions run operations with
    effects by themselves. TensorFlow 1 graphs, and conditionals in them, run only what a
    result depends on.
    """
    if tf.executing_eagerly():
        return tf.constant(value)
    with tf.control_dependencies(known_operations(operations)):
        return tf.constant(value)


def known_operations(results):
    """Return the operations of a graph that made `results`; none in eager mode."""
    if tf.executing_eagerly():
        return []
    made = [getattr(result, "op", result) for result in results]
    return [operation for operation in made if isinstance(operation, tf.Operation)]


def _result(update, applied):
    """Return what a step returns, see `apply_or_skip`."""
    if tf.executing_eagerly():
        return None
    with tf.control_dependencies([] if update is None else [update]):
        applied = tf.identity(applied)
    in_function = tf.compat.v1.get_default_graph().building_function
    return applied if in_function else applied.op


def apply_or_skip(verdict, gradients, apply_fn, skip_fn):
    """Run `apply_fn` on every replica if the verdict is good, else `skip_fn` once.

    The update of an optimizer merges the replicas, and a conditional with such a branch
    must run in cross-replica context. So the verdict is taken there, once, and every
    replica follows it. Strategies that need no merging stay in replica context.

    Args:
      verdict: callable, gradients -> (update op of the loss scale or None,
        should_apply). `should_apply` is a scalar bool tensor, or a Python bool if it
        is known in advance: a fixed scale always gives True. In cross-replica context
        the gradients are per-replica values.
      gradients: this replica's gradients, without None.
      apply_fn: callable that takes the gradients and updates the variables, in replica
        context. It may return an op.
      skip_fn: callable that takes the gradients, as `verdict` does, and notes a skipped
        step. It returns a list of ops.

    Returns:
      None in eager mode. In a function a scalar bool tensor: whether the step was
      applied. In a TensorFlow 1 graph an op that runs the whole step.
    """

    def decide(gradients, apply_branch):
        def skip_branch():
            return after(skip_fn(gradients), False)

        update, should_apply = verdict(gradients)
        if isinstance(should_apply, numbers.Integral):  # of which bool is a kind
            return _result(update, apply_branch() if should_apply else skip_branch())
        seldom = branches.seldom(skip_branch)
        applied = branches.either(should_apply, apply_branch, seldom, of=gradients)
        return _result(update, applied)

    def apply_here(gradients):
        return after([apply_fn(gradients)], True)

    if tf_private.needs_no_merge_call():
        return decide(gradients, lambda: apply_here(gradients))

    def merged(strategy, gradients):
        def apply_everywhere():
            applied = strategy.extended.call_for_each_replica(
                apply_here, args=(gradients,)
            )
            return strategy.experimental_local_results(applied)[0]

        return decide(gradients, apply_everywhere)

    return tf.distribute.get_replica_context().merge_call(merged, args=(gradients,))
