"""One step of training, from scaled gradients to the next loss scale.

Five calls in one order: unscale, aggregate, finite?, apply or skip, next scale.
"""

import numbers
import types
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.scaling import fast
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling.scale_variables import after, known_operations


class _Optimizer(NamedTuple):
    """What the stages know of the optimizer, see `apply_step`."""

    family: Any
    loss_scale: Any
    skipped: Any
    variables: list[Any]
    again: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def apply_step(
    family,
    loss_scale,
    skipped,
    gradients,
    variables,
    *,
    divisor,
    is_unscaled,
    aggregate,
    args=(),
    kwargs=types.MappingProxyType({}),
):
    """Unscale, aggregate and judge gradients; apply or skip the step; move the scale.

    Args:
      family: the adapter to the inner optimizer: `aggregate`, `aggregates_in_full`,
        `apply`, `count_skipped` and `counter`.
      loss_scale: the optimizer's `LossScale`.
      skipped: the optimizer's `Skipped`, which knows the variables.
      gradients: list of this replica's gradients, without None.
      variables: list of the variable of each gradient.
      divisor: float32 scalar tensor that divides the gradients; None if all are unscaled.
      is_unscaled: callable, gradient -> whether it is unscaled all the same.
      aggregate: whether to aggregate over the replicas, which the caller has not done.
      args: further arguments of the inner optimizer's `apply_gradients`.
      kwargs: the same, by name.

    Returns:
      None in eager mode. In a function a scalar bool tensor: whether the step was
      applied. In a TensorFlow 1 graph an op that runs the whole step.
    """

    def unscaled():
        result = gradients
        if divisor is not None:
            result = gradients_lib.unscale_scaled(
                result, variables, divisor, is_unscaled
            )
        return result

    ready, again = unscaled(), unscaled if fast.in_xla() else None
    if aggregate:
        given = ready
        ready, variables = family.aggregate(ready, variables)
        again = again if ready is given else None
    ready = gradients_lib.with_summed_rows(ready)
    optimizer = _Optimizer(family, loss_scale, skipped, variables, again, args, kwargs)
    # Aggregated gradients are the same on each replica, but for what tf_lso did not
    # aggregate. If they are, one replica can judge for all.
    are_equal = aggregate and family.aggregates_in_full
    are_equal = are_equal and not any(map(gradients_lib.overwrites, variables))
    if tf_private.needs_no_merge_call():
        return _finish(optimizer, ready, are_equal)
    # The update of an optimizer merges the replicas, and a conditional with such a branch
    # must run in cross-replica context. There gradients are per-replica values.
    return tf.distribute.get_replica_context().merge_call(
        lambda _, merged: _finish(optimizer, merged, are_equal), args=(ready,)
    )


def _finish(optimizer, gradients, are_equal):
    """Take the stages that all replicas take as one; return as `apply_step`."""
    loss_scale = optimizer.loss_scale
    if loss_scale.takes_verdicts:
        finite = finite_lib.agreed(gradients, are_equal)
        applied = _apply_or_skip(optimizer, gradients, finite)
        with tf.control_dependencies(known_operations([applied])):
            moved = loss_scale.variables.advance(finite)
    else:
        # It judges in its own way, and moves at once.
        moved, finite = loss_scale.update(gradients)
        applied = _apply_or_skip(optimizer, gradients, finite)
    if tf.executing_eagerly():
        return None
    with tf.control_dependencies([] if moved is None else known_operations([moved])):
        applied = tf.identity(applied)
    in_function = tf.compat.v1.get_default_graph().building_function
    return applied if in_function else applied.op


def _apply_or_skip(optimizer, gradients, finite):
    """Update the variables, or note the skipped step; return whether it was applied."""
    family, _, skipped, variables, again, args, kwargs = optimizer

    def ready():
        return gradients_lib.with_summed_rows(again()) if again else gradients

    def apply_here(gradients):
        return after([family.apply(gradients, variables, *args, **kwargs)], True)

    def apply():
        if not tf.distribute.in_cross_replica_context():
            return apply_here(ready())
        strategy = tf.distribute.get_strategy()
        applied = strategy.extended.call_for_each_replica(apply_here, args=(gradients,))
        return strategy.experimental_local_results(applied)[0]

    def skip():
        counter, count = family.counter(), family.count_skipped
        return after(skipped.note(ready(), variables, counter, count), False)

    if tf.executing_eagerly():
        finite = bool(finite)
    # A bool is known in advance: a fixed scale never skips.
    if isinstance(finite, numbers.Integral):
        return apply() if finite else skip()
    return fast.either(finite, apply, fast.seldom(skip), of=gradients)
