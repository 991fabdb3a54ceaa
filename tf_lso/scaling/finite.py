"""Are all gradients finite, and do all replicas agree?"""

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.scaling import fast
from tf_lso.scaling import gradients as gradients_lib


@fast.packed(in_graphs=True)
def _sums_are_finite(tensors):
    """Return a list with whether the sum of all numbers is finite, a bool scalar."""
    axis, sums = tf.constant(0), [tf.constant(0.0)]
    for vectors in gradients_lib.real_vectors(tensors):
        for vector in vectors:
            # Sums of 16 bits would overflow too soon.
            wide = tf.cast(vector, tf.float32) if vector.dtype.size == 2 else vector
            sums.append(tf.cast(tf.reduce_sum(wide, axis), tf.float32))
    return [tf.math.is_finite(tf.reduce_sum(tf.stack(sums), axis))]


def _all(verdicts):
    return verdicts[0] if len(verdicts) == 1 else tf.reduce_all(tf.stack(verdicts))


def _proof(tensors):
    """Return a scalar bool tensor that is True only if all tensors are finite.

    False proves nothing: finite numbers may have an infinite sum. A sum reads each number
    once and writes nothing, whereas `tf.math.is_finite` writes as many bools as it reads
    numbers: for the 25.6 million gradients of ResNet-50 the sums take 7.8 ms in a function
    and 6.6 under XLA, and the exact verdict 11.0 and 13.5.

    Of a quotient the dividend is summed, so that the division can wait. If the divisor is
    at least 1, the quotient is finite like the dividend.
    """
    quotients = [fast.quotient(tensor) for tensor in tensors]
    summands = [t if q is None else q.dividend for t, q in zip(tensors, quotients)]
    if not tf.executing_eagerly():  # there a call runs many operations, see `packed`
        summands = fast.joined(summands)
    is_proved = _all(_sums_are_finite(summands))
    divisors = {id(q.divisor): q.divisor for q in quotients if q is not None}
    for divisor in divisors.values():
        is_proved &= divisor >= 1
    return is_proved


@fast.packed(in_graphs=True)
def _exact_verdict(tensors):
    axis, verdicts = tf.constant(0), [tf.constant(True)]
    for vectors in gradients_lib.real_vectors(tensors):
        verdicts += [tf.reduce_all(tf.math.is_finite(v), axis) for v in vectors]
    return [tf.reduce_all(tf.stack(verdicts), axis)]


def _are_finite(gradients):
    """Return whether gradients, with rows summed, are finite, a scalar bool tensor."""
    tensors = gradients_lib.values_of([g for g in gradients if g is not None])
    if not tensors:
        return tf.constant(True)

    def exact():
        return _all(_exact_verdict(fast.divided_here(tensors)))

    proved = _proof(tensors)
    if tf.executing_eagerly():
        return proved if proved else exact()
    return fast.either(
        proved, lambda: tf.constant(True), fast.seldom(exact), of=tensors
    )


def all_finite(gradients):
    """Return whether no gradient of this replica holds NaN or infinity; None has none."""
    return _are_finite(gradients_lib.with_summed_rows(gradients))


def _nonfinite_flag(gradients):  # booleans cannot be reduced across replicas
    return tf.cast(tf.logical_not(all_finite(gradients)), tf.float32)


def merging_is_needed():
    """Return whether replicas must merge before they take a verdict in common."""
    across = tf.distribute.in_cross_replica_context()
    return not (across or tf_private.needs_no_merge_call())


def of_first_replica(gradients):
    """Return a list of the first local copy of each gradient, as one replica has them."""
    local = tf.distribute.get_strategy().experimental_local_results
    return [local(gradient)[0] for gradient in gradients]


def agreed(gradients, are_equal=False):
    """Return whether the gradients of all replicas are finite, the same on each.

    Call it in cross-replica context, or where `merging_is_needed()` is false. If all
    replicas have equal gradients, with rows summed, the first speaks for all. Otherwise
    several replicas take one scalar all-reduce.
    """
    strategy, add = tf.distribute.get_strategy(), tf.distribute.ReduceOp.SUM
    if are_equal:
        return _are_finite(of_first_replica(gradients))
    if tf.distribute.in_cross_replica_context():
        run = strategy.extended.call_for_each_replica
        flag = strategy.reduce(add, run(_nonfinite_flag, args=(gradients,)), axis=None)
    elif strategy.num_replicas_in_sync == 1:
        return all_finite(gradients)
    else:
        replica = tf.distribute.get_replica_context()
        flag = replica.all_reduce(add, _nonfinite_flag(gradients))
    return tf.equal(flag, 0)
