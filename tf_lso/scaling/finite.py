"""Are all gradients finite, and do all replicas agree?"""

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.scaling import fast
from tf_lso.scaling import gradients as gradients_lib


@fast.packed(in_graphs=True)
def _verdicts(tensors):
    axis = tf.constant(0)  # each reduction would make its own, of five operations
    vectors = [v for vectors in gradients_lib.real_vectors(tensors) for v in vectors]
    verdicts = [tf.reduce_all(tf.math.is_finite(vector), axis) for vector in vectors]
    return [tf.reduce_all(tf.stack(verdicts), axis) if verdicts else tf.constant(True)]


def _are_finite(gradients):  # whose rows are summed
    tensors = gradients_lib.values_of([g for g in gradients if g is not None])
    return tf.reduce_all(_verdicts(tensors))


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
