"""Are all gradients finite, and do all replicas agree?"""

import functools
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso.frameworks import tf_private
from tf_lso.scaling import fast
from tf_lso.scaling import gradients as gradients_lib


class Verdict(NamedTuple):
    """What is known of the gradients of a step."""

    # Whether they are to be applied, a bool or a scalar bool tensor.
    finite: Any
    # Whether each gradient holds infinity, and whether NaN, on any local replica: a bool
    # tensor [gradients, 2]. None if nobody has looked.
    kinds: Any = None


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
def _kinds(tensors):
    """Return for each tensor whether it holds infinity, and whether NaN: bools [n, 2]."""
    axis, kinds = tf.constant(0), []
    for vectors in gradients_lib.real_vectors(tensors):
        for test in (tf.math.is_inf, tf.math.is_nan):
            found = [tf.reduce_any(test(vector), axis) for vector in vectors]
            kinds.append(functools.reduce(tf.logical_or, found or [tf.constant(False)]))
    return [tf.reshape(tf.stack(kinds), [-1, 2])]


def nonfinite_kinds(gradients):
    """Return whether each gradient holds infinity, and whether NaN: bools [gradients, 2]."""
    tensors = gradients_lib.values_of(gradients)
    if not tensors:
        return tf.zeros([0, 2], tf.bool)
    kinds = tf.concat(_kinds(fast.divided_here(tensors)), axis=0)
    return tf.reshape(kinds, [len(tensors), 2])  # a call of `packed` knows no shape


def _verdict(gradients):
    """Return the `Verdict` on gradients of one replica, with rows summed."""
    tensors = gradients_lib.values_of([g for g in gradients if g is not None])
    if not tensors:
        return Verdict(tf.constant(True))
    proved = _proof(tensors)
    if tf.executing_eagerly():
        if proved:
            return Verdict(proved)
        kinds = nonfinite_kinds(tensors)
    else:
        kinds = fast.either(
            proved,
            lambda: tf.zeros([len(tensors), 2], tf.bool),
            fast.seldom(lambda: nonfinite_kinds(tensors)),
            of=tensors,
        )
    return Verdict(tf.logical_not(tf.reduce_any(kinds)), kinds)


def all_finite(gradients):
    """Return whether no gradient of this replica holds NaN or infinity; None has none."""
    return _verdict(gradients_lib.with_summed_rows(gradients)).finite


def merging_is_needed():
    """Return whether replicas must merge before they take a verdict in common."""
    across = tf.distribute.in_cross_replica_context()
    return not (across or tf_private.needs_no_merge_call())


def _of_first_replica(gradients):
    local = tf.distribute.get_strategy().experimental_local_results
    return [local(gradient)[0] for gradient in gradients]


def _verdict_on_replica(gradients):
    finite, kinds = _verdict(gradients_lib.with_summed_rows(gradients))
    if kinds is None:
        kinds = tf.zeros([len(gradients), 2], tf.bool)
    # Booleans cannot be reduced across replicas.
    return kinds, tf.cast(tf.logical_not(finite), tf.float32)


def agreed(gradients, are_equal=False):
    """Return the `Verdict` on the gradients of all replicas, the same on each.

    Call it in cross-replica context, or where `merging_is_needed()` is false. If all
    replicas have equal gradients, with rows summed, the first speaks for all. Otherwise
    several replicas take one scalar all-reduce.
    """
    strategy, add = tf.distribute.get_strategy(), tf.distribute.ReduceOp.SUM
    if are_equal:
        return _verdict(_of_first_replica(gradients))
    if tf.distribute.in_cross_replica_context():
        run = strategy.extended.call_for_each_replica
        kinds, flags = run(_verdict_on_replica, args=(gradients,))
        flag = strategy.reduce(add, flags, axis=None)
        # Of the replicas of other workers only the flag is known.
        local = strategy.experimental_local_results(kinds)
        return Verdict(tf.equal(flag, 0), functools.reduce(tf.logical_or, local))
    if strategy.num_replicas_in_sync == 1:
        return _verdict(gradients_lib.with_summed_rows(gradients))
    kinds, flag = _verdict_on_replica(gradients)
    flag = tf.distribute.get_replica_context().all_reduce(add, flag)
    return Verdict(tf.equal(flag, 0), kinds)


def kinds_on_any_replica(gradients):
    """Return `nonfinite_kinds` of all local replicas together, bools [gradients, 2]."""
    local = tf.distribute.get_strategy().experimental_local_results
    copies = zip(*map(local, gradients))
    return functools.reduce(tf.logical_or, map(nonfinite_kinds, copies))
