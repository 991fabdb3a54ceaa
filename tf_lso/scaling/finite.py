"""Are all gradients finite, and do all replicas agree?"""

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling.fast import branches, joined, packed

_FEW = 2**14  # up to this many numbers, the exact verdict is faster than a conditional


def _is_finite(values):
    """Return the exact verdict on one tensor. This writes a bool for each number."""
    if values.dtype.is_integer:
        return tf.constant(True)
    if values.dtype.is_complex:
        return _is_finite(tf.math.real(values)) & _is_finite(tf.math.imag(values))
    return tf.reduce_all(tf.math.is_finite(values))


def _total(tensors):
    """Return the sum of all numbers: if it is finite, all numbers are.

    The sum may overflow although all numbers are finite. It reads the tensors once and
    writes nothing.
    """
    sums = [tf.cast(tf.reduce_sum(values), tf.float32) for values in tensors]
    # Not AddN: in a graph that stands for a reduction over replicas.
    return tf.reduce_sum(tf.stack(sums)) if len(sums) > 1 else sums[0]


def _all(verdicts):
    return tf.reduce_all(tf.stack(verdicts)) if len(verdicts) > 1 else verdicts[0]


@packed.packed
def _exact(tensors):
    return [_all([_is_finite(values) for values in tensors])]


@packed.packed
def _proof(tensors):
    """Return True only if all are finite. False may also mean that a sum overflowed."""
    # Sums in 16 bits would overflow too soon.
    wide = [values for values in tensors if values.dtype in gradients_lib.WIDE]
    others = [values for values in tensors if values.dtype not in gradients_lib.WIDE]
    sums_are_finite = [tf.math.is_finite(_total(wide))] if wide else []
    return [_all([*sums_are_finite, *map(_is_finite, others)])]


def are_few(tensors):
    """Return whether tensors have so few numbers that saving a pass is not worth it."""
    sizes = [values.shape.num_elements() for values in tensors]
    return None not in sizes and sum(sizes) <= _FEW


def _need_no_proof(tensors):
    """Whether the exact verdict is as fast: for narrow dtypes and for few numbers."""
    wide = [values for values in tensors if values.dtype in gradients_lib.WIDE]
    if wide and tf.executing_eagerly():
        return False  # asking each tensor for its shape would take longer
    return are_few(wide)


def _tensors(gradients):
    """Return tensors with the numbers of all gradients, whose rows are summed."""
    gradients = [g for g in gradients if g is not None]
    return joined.joined(gradients_lib.values_of(gradients))


def _are_finite(gradients):
    """Return the verdict on gradients whose rows are summed."""
    tensors = _tensors(gradients)
    if not tensors:
        return tf.constant(True)
    if _need_no_proof(tensors):
        return _all(_exact(tensors))
    return branches.either(
        _all(_proof(tensors)),
        lambda: tf.constant(True),
        branches.seldom(lambda: _all(_exact(tensors))),
        of=tensors,
    )


def all_finite(gradients):
    """Return whether this replica's gradients hold neither NaN nor infinity.

    Args:
      gradients: list of tensors, `tf.IndexedSlices` and None, which is ignored.

    Returns:
      A scalar bool tensor, True for an empty list.
    """
    return _are_finite(gradients_lib.with_summed_rows(gradients))


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
        and not tf_private.needs_no_merge_call()
    )


def agreed(gradients, are_equal=False):
    """Return whether the gradients of all replicas are finite, the same on each.

    It may be called in cross-replica context, and in replica context if
    `merging_is_needed()` is false.

    Args:
      gradients: list of tensors or of per-replica values; None is ignored.
      are_equal: whether the gradients are aggregated, with rows summed, so that every
        replica has the same and the first one speaks for all. Otherwise this costs one
        scalar all-reduce if there are several replicas.

    Returns:
      A scalar bool tensor.
    """
    strategy = tf.distribute.get_strategy()
    if are_equal:
        return _are_finite(_first_here(gradients))
    if tf.distribute.in_cross_replica_context():
        return _agreed_cross_replica(strategy, gradients)
    if strategy.num_replicas_in_sync == 1:
        return all_finite(gradients)
    replica = tf.distribute.get_replica_context()
    flag = replica.all_reduce(tf.distribute.ReduceOp.SUM, _nonfinite_flag(gradients))
    return tf.equal(flag, 0)


def _first_here(values):
    """Return a structure of per-replica values as the first local replica has it."""
    if not tf.distribute.in_cross_replica_context():
        return values
    local = tf.distribute.get_strategy().experimental_local_results
    return tf.nest.map_structure(lambda value: local(value)[0], values)
