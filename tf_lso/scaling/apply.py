"""Apply a step or skip it, on one verdict for all replicas.

The only code that knows `merge_call` and `cond`.
"""

import tensorflow as tf


def _group(*operations):
    """One op of all `operations` in a TensorFlow 1 graph, elsewhere None.

    Functions run what has effects by themselves, and may not return an op.
    """
    if tf.executing_eagerly() or tf.compat.v1.get_default_graph().building_function:
        return None
    return tf.group(*[op for op in operations if op is not None])


def apply_or_skip(verdict, gradients, apply_fn, skip_fn):
    """Run `apply_fn` on every replica where the verdict is good, `skip_fn` otherwise.

    A conditional whose branch merges replicas must stand in cross-replica context,
    and the update of an optimizer merges; so the verdict is taken there, once, and
    every replica follows it. Where the strategy needs no merging, replica context is
    right.

    Args:
      verdict: callable, gradients -> (update op of the loss scale or None,
        should_apply). `should_apply` is a scalar bool tensor, or the Python bool True
        where steps are never skipped.
      gradients: this replica's gradients, without None.
      apply_fn: callable, gradients -> None; updates the variables in replica context.
      skip_fn: callable without arguments; runs once instead.

    Returns:
      In a TensorFlow 1 graph an op that does it all, elsewhere None.
    """

    def decide(gradients, apply_branch):
        update, should_apply = verdict(gradients)
        if should_apply is True:
            return _group(update, apply_branch())
        return _group(update, tf.cond(should_apply, apply_branch, skip_branch))

    def skip_branch():
        skip_fn()
        return tf.constant(False)

    def apply_here(gradients):
        apply_fn(gradients)
        return tf.constant(True)

    if tf.__internal__.distribute.strategy_supports_no_merge_call():
        return decide(gradients, lambda: apply_here(gradients))

    def merged(strategy, gradients):
        def apply_everywhere():
            strategy.extended.call_for_each_replica(apply_here, args=(gradients,))
            return tf.constant(True)

        return decide(gradients, apply_everywhere)

    return tf.distribute.get_replica_context().merge_call(merged, args=(gradients,))
