"""Are all gradients finite, and do all replicas agree?"""

import tensorflow as tf

from tf_lso.scaling import gradients as gradients_lib


def _finite(gradient):
    values = tf.convert_to_tensor(getattr(gradient, "values", gradient))
    if values.dtype.is_integer:
        return tf.constant(True)
    if values.dtype.is_complex:
        return tf.reduce_all(
            tf.math.is_finite(tf.math.real(values))
            & tf.math.is_finite(tf.math.imag(values))
        )
    return tf.reduce_all(tf.math.is_finite(values))


def all_finite(gradients, summed=False):
    """Return whether this replica's gradients hold neither NaN nor infinity.

    Args:
      gradients: list of tensors, `tf.IndexedSlices` and None, which is ignored.
      summed: whether the rows of each index of slices have been added up already.

    Returns:
      A scalar bool tensor, True for an empty list.
    """
    gradients = [g for g in gradients if g is not None]
    if not summed:
        gradients = [gradients_lib.with_summed_rows(g) for g in gradients]
    verdicts = [_finite(g) for g in gradients]
    if len(verdicts) == 1:
        return verdicts[0]
    return tf.reduce_all(tf.stack(verdicts)) if verdicts else tf.constant(True)


def _nonfinite_flag(gradients):
    # Booleans cannot be reduced across replicas.
    return tf.cast(tf.logical_not(all_finite(gradients)), tf.float32)


def _agreed_cross_replica(strategy, gradients):
    flags = strategy.extended.call_for_each_replica(_nonfinite_flag, args=(gradients,))
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, flags, axis=None)
    return tf.equal(total, 0)


def merging_is_needed():
    """Return whether replicas must merge before they take a verdict in common."""
    return (
        not tf.distribute.in_cross_replica_context()
        and not tf.__internal__.distribute.strategy_supports_no_merge_call()
    )


def agreed(gradients):
    """Return whether the gradients of all replicas are finite, the same on each.

    Costs one scalar all-reduce where there are several replicas. In cross-replica
    context, without a strategy, or where `merging_is_needed()` is false.

    Args:
      gradients: list of tensors or of per-replica values; None is ignored.

    Returns:
      A scalar bool tensor.
    """
    strategy = tf.distribute.get_strategy()
    if tf.distribute.in_cross_replica_context():
        return _agreed_cross_replica(strategy, gradients)
    if strategy.num_replicas_in_sync == 1:
        return all_finite(gradients)
    replica = tf.distribute.get_replica_context()
    flag = replica.all_reduce(tf.distribute.ReduceOp.SUM, _nonfinite_flag(gradients))
    return tf.equal(flag, 0)


def of_aggregated(gradients):
    """Return whether aggregated gradients are finite, with no communication.

    After aggregation every replica holds the same sum, so the first replica's copy
    speaks for all. The rows of slices must have been added up.

    Args:
      gradients: list of tensors or of per-replica values; None is ignored.

    Returns:
      A scalar bool tensor.
    """
    if tf.distribute.in_cross_replica_context():
        strategy = tf.distribute.get_strategy()
        gradients = [strategy.experimental_local_results(g)[0] for g in gradients]
    return all_finite(gradients, summed=True)
