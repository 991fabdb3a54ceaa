"""Apply a step or skip it, on one verdict for all replicas.

The only code that knows `merge_call`.
"""

import numbers

import tensorflow as tf

from tf_lso.scaling.fast import branches


def after(operations, value):
    """Return `value` as a tensor that in a graph exists only once `operations` have run.

    Functions run what has effects by themselves; TensorFlow 1 graphs, and conditionals
    in them, run only what a result depends on.
    """
    if tf.executing_eagerly():
        return tf.constant(value)
    known = [getattr(operation, "op", operation) for operation in operations]
    known = [operation for operation in known if isinstance(operation, tf.Operation)]
    with tf.control_dependencies(known):
        return tf.constant(value)


def _result(update, applied):
    """What a step returns: see `apply_or_skip`."""
    if tf.executing_eagerly():
        return None
    with tf.control_dependencies([] if update is None else [update]):
        applied = tf.identity(applied)
    in_function = tf.compat.v1.get_default_graph().building_function
    return applied if in_function else applied.op


def apply_or_skip(verdict, gradients, apply_fn, skip_fn):
    """Run `apply_fn` on every replica where the verdict is good, `skip_fn` otherwise.

    A conditional whose branch merges replicas must stand in cross-replica context,
    and the update of an optimizer merges; so the verdict is taken there, once, and
    every replica follows it. Where the strategy needs no merging, replica context is
    right.

    Args:
      verdict: callable, gradients -> (update op of the loss scale or None,
        should_apply). `should_apply` is a scalar bool tensor, or a Python bool where
        it is known: always True where steps are never skipped.
      gradients: this replica's gradients, without None.
      apply_fn: callable, gradients -> an op or anything else; updates the variables in
        replica context.
      skip_fn: callable without arguments -> list of ops; runs once instead.

    Returns:
      In eager mode None; in a function a scalar bool tensor, whether the step was
      applied; in a TensorFlow 1 graph an op that does it all.
    """

    def decide(gradients, apply_branch):
        update, should_apply = verdict(gradients)
        if isinstance(should_apply, numbers.Integral):  # bool is one, and 0 and 1 are
            return _result(update, apply_branch() if should_apply else skip_branch())
        applied = branches.either(should_apply, apply_branch, skip_branch, of=gradients)
        return _result(update, applied)

    def skip_branch():
        return after(skip_fn(), False)

    def apply_here(gradients):
        return after([apply_fn(gradients)], True)

    if tf.__internal__.distribute.strategy_supports_no_merge_call():
        return decide(gradients, lambda: apply_here(gradients))

    def merged(strategy, gradients):
        def apply_everywhere():
            applied = strategy.extended.call_for_each_replica(
                apply_here, args=(gradients,)
            )
            return strategy.experimental_local_results(applied)[0]

        return decide(gradients, apply_everywhere)

    return tf.distribute.get_replica_context().merge_call(merged, args=(gradients,))
