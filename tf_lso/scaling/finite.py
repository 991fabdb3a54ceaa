"""Decide whether all gradients are finite. All replicas get the same answer."""

import functools
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso.frameworks import tf_private
from tf_lso.scaling import fast
from tf_lso.scaling import gradients as gradients_lib


class Verdict(NamedTuple):
    """The answer to the question whether the gradients of a step are finite."""

    # A bool or a scalar bool tensor that says whether to apply the gradients.
    finite: Any
    # A bool tensor of shape [number of gradients, 2]. The first column says which gradients
    # contain infinity on at least one replica of this process. The second column says which
    # gradients contain NaN. The value None means that the tensor was not computed.
    kinds: Any = None


@fast.packed(in_graphs=True)
def _sums_are_finite(tensors):
    """Return whether the sum of all numbers is finite.

    The result is a list of one scalar bool tensor, since `packed` needs a list.
    """
    axis, sums = tf.constant(0), [tf.constant(0.0)]
    for vectors in gradients_lib.real_vectors(tensors):
        for vector in vectors:
            # A sum in a 16-bit dtype could overflow although each of its terms is finite.
            wide = tf.cast(vector, tf.float32) if vector.dtype.size == 2 else vector
            sums.append(tf.cast(tf.reduce_sum(wide, axis), tf.float32))
    return [tf.math.is_finite(tf.reduce_sum(tf.stack(sums), axis))]


def _all(verdicts):
    return verdicts[0] if len(verdicts) == 1 else tf.reduce_all(tf.stack(verdicts))


def _proof(tensors):
    """Return a scalar bool tensor that is True only if all tensors are finite.

    If the result is False, the tensors may still be finite, because a sum of finite numbers
    may be infinite. A sum reads each number once and writes nothing, whereas
    `tf.math.is_finite` writes one bool for each number. For the 25.6 million gradients of
    ResNet-50, the sums take 7.8 ms in a `tf.function` and 6.6 ms under XLA. The exact check
    takes 11.0 and 13.5 ms.

    If a tensor is a quotient, the dividend is summed instead of the tensor, so that the
    division can be done later. If the divisor is at least 1 and the dividend is finite, the
    quotient is finite too.
    """
    quotients = [fast.quotient(tensor) for tensor in tensors]
    summands = [t if q is None else q.dividend for t, q in zip(tensors, quotients)]
    # In eager code `packed` already saves operations, so there is no need to join tensors.
    if not tf.executing_eagerly():
        summands = fast.joined(summands)
    is_proved = _all(_sums_are_finite(summands))
    divisors = {id(q.divisor): q.divisor for q in quotients if q is not None}
    for divisor in divisors.values():
        is_proved &= divisor >= 1
    return is_proved


@fast.packed(in_graphs=True)
def _kinds(tensors):
    """Return which tensors contain infinity, and which contain NaN.

    The result is a list of one bool tensor of shape [number of tensors, 2]. The first column is
    for infinity, and the second column is for NaN.
    """
    axis, kinds = tf.constant(0), []
    for vectors in gradients_lib.real_vectors(tensors):
        for test in (tf.math.is_inf, tf.math.is_nan):
            found = [tf.reduce_any(test(vector), axis) for vector in vectors]
            kinds.append(functools.reduce(tf.logical_or, found or [tf.constant(False)]))
    return [tf.reshape(tf.stack(kinds), [-1, 2])]


def nonfinite_kinds(gradients):
    """Return which gradients of one replica contain infinity, and which contain NaN.

    The result is a bool tensor of shape [number of gradients, 2]. The first column is for
    infinity, and the second column is for NaN.
    """
    tensors = gradients_lib.values_of(gradients)
    if not tensors:
        return tf.zeros([0, 2], tf.bool)
    kinds = tf.concat(_kinds(fast.divided_here(tensors)), axis=0)
    # `packed` loses the static shape, so set the shape again.
    return tf.reshape(kinds, [len(tensors), 2])


def _verdict(gradients):
    """Return the `Verdict` on the gradients of one replica.

    The caller has already summed the rows of slices that have equal indices.
    """
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
    """Return whether all gradients of this replica are finite.

    Gradients that are None are ignored.
    """
    return _verdict(gradients_lib.with_summed_rows(gradients)).finite


def merging_is_needed():
    """Return whether the replicas need a `merge_call` to reach a common verdict."""
    across = tf.distribute.in_cross_replica_context()
    return not (across or tf_private.needs_no_merge_call())


def _of_first_replica(gradients):
    local = tf.distribute.get_strategy().experimental_local_results
    return [local(gradient)[0] for gradient in gradients]


def _verdict_on_replica(gradients):
    finite, kinds = _verdict(gradients_lib.with_summed_rows(gradients))
    if kinds is None:
        kinds = tf.zeros([len(gradients), 2], tf.bool)
    # TensorFlow cannot reduce booleans across replicas. So return a float, which is 0 if the
    # gradients are finite and 1 otherwise.
    return kinds, tf.cast(tf.logical_not(finite), tf.float32)


def agreed(gradients, are_equal=False):
    """Return the `Verdict` on the gradients of all replicas.

    The field `finite` is the same on all replicas.

    Call this function in cross-replica context, or where `merging_is_needed()` is False. If
    `are_equal` is True, the caller guarantees that all replicas have equal gradients, and that
    rows with equal indices are already summed. The function then reads only the gradients of
    the first replica. Otherwise, if there are several replicas, the function all-reduces one
    scalar.
    """
    strategy, add = tf.distribute.get_strategy(), tf.distribute.ReduceOp.SUM
    if are_equal:
        return _verdict(_of_first_replica(gradients))
    if tf.distribute.in_cross_replica_context():
        run = strategy.extended.call_for_each_replica
        kinds, flags = run(_verdict_on_replica, args=(gradients,))
        flag = strategy.reduce(add, flags, axis=None)
        # `flag` covers all replicas. But `kinds`, which says which gradients contain infinity
        # or NaN, covers only the replicas of this process.
        local = strategy.experimental_local_results(kinds)
        return Verdict(tf.equal(flag, 0), functools.reduce(tf.logical_or, local))
    if strategy.num_replicas_in_sync == 1:
        return _verdict(gradients_lib.with_summed_rows(gradients))
    kinds, flag = _verdict_on_replica(gradients)
    flag = tf.distribute.get_replica_context().all_reduce(add, flag)
    return Verdict(tf.equal(flag, 0), kinds)


def kinds_on_any_replica(gradients):
    """Return which gradients contain infinity or NaN on any replica of this process.

    The result is a bool tensor of shape [number of gradients, 2]. The first column is for
    infinity, and the second column is for NaN.
    """
    local = tf.distribute.get_strategy().experimental_local_results
    copies = zip(*map(local, gradients))
    return functools.reduce(tf.logical_or, map(nonfinite_kinds, copies))
