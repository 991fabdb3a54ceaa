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
      divisor: float32 scalar tensor by which to unscale the gradients, or None if all
        are unscaled.
      is_unscaled: callable, gradient -> whether it is unscaled all the same.
      aggregate: whether to aggregate the gradients over the replicas; False if the
        caller has done it.
      args: further arguments for the inner optimizer's `apply_gradients`.
      kwargs: the same, by name.

    Returns:
      None in eager mode. In a function a scalar bool tensor: whether the step was
      applied. In a TensorFlow 1 graph an op that runs the whole step.
    """
    if divisor is not None:
        gradients = gradients_lib.unscale_scaled(
            gradients, variables, divisor, is_unscaled
        )
    if aggregate:
        gradients, variables = family.aggregate(gradients, variables)
    gradients = gradients_lib.with_summed_rows(gradients)
    optimizer = _Optimizer(family, loss_scale, skipped, variables, args, kwargs)
    are_equal = aggregate and _are_equal(family, variables)
    return _as_one(
        lambda gradients: _finish(optimizer, gradients, are_equal), gradients
    )


def _finish(optimizer, gradients, are_equal):
    """Take the stages that all replicas take as one."""
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
    return _result(applied, moved)


def _as_one(finish, gradients):
    """Call `finish` with the gradients once for all replicas, if they must merge.

    The update of an optimizer merges the replicas, and a conditional with such a branch
    must run in cross-replica context. There gradients are per-replica values. Strategies
    that need no merging stay in replica context.
    """
    if tf_private.needs_no_merge_call():
        return finish(gradients)
    replica = tf.distribute.get_replica_context()
    return replica.merge_call(lambda _, merged: finish(merged), args=(gradients,))


def _are_equal(family, variables):
    """Whether aggregated gradients are the same on each replica, so one can judge.

    What tf_lso did not aggregate may differ between replicas.
    """
    overwritten = any(gradients_lib.overwrites(v) for v in variables)
    return family.aggregates_in_full and not overwritten


def _apply_or_skip(optimizer, gradients, finite):
    """Update the variables on every replica, or only note the step, once.

    Args:
      optimizer: an `_Optimizer`.
      gradients: as for `_finish`.
      finite: scalar bool tensor, or a Python bool if it is known in advance: a fixed
        scale never skips.

    Returns:
      Whether the step was applied, a tensor that exists when it has run.
    """
    family, skipped, variables = (
        optimizer.family,
        optimizer.skipped,
        optimizer.variables,
    )

    def apply_here(gradients):
        args, kwargs = optimizer.args, optimizer.kwargs
        return after([family.apply(gradients, variables, *args, **kwargs)], True)

    def apply():
        if not tf.distribute.in_cross_replica_context():
            return apply_here(gradients)
        strategy = tf.distribute.get_strategy()
        applied = strategy.extended.call_for_each_replica(apply_here, args=(gradients,))
        return strategy.experimental_local_results(applied)[0]

    def skip():
        counter = family.counter()
        return after(
            skipped.note(gradients, variables, counter, family.count_skipped), False
        )

    if tf.executing_eagerly():
        finite = bool(finite)
    if isinstance(finite, numbers.Integral):  # of which bool is a kind
        return apply() if finite else skip()
    return fast.either(finite, apply, fast.seldom(skip), of=gradients)


def _result(applied, moved):
    """Return what a step returns, see `apply_step`."""
    if tf.executing_eagerly():
        return None
    with tf.control_dependencies([] if moved is None else known_operations([moved])):
        applied = tf.identity(applied)
    in_function = tf.compat.v1.get_default_graph().building_function
    return applied if in_function else applied.op
