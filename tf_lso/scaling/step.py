"""One step of training, from scaled gradients to the next loss scale."""

import tensorflow as tf

from tf_lso.scaling import apply as apply_lib
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import replica


def apply_step(face, gradients, variables, *, divisor, aggregate, name=None):
    """Unscale, aggregate, judge, move the loss scale, then apply or skip.

    Args:
      face: the optimizer: `loss_scale_state` (a `LossScale`), `unscale`,
        `unscaled_gradients`, `aggregate_inner`, `aggregates_in_full`, `apply_inner` and
        `skip`.
      gradients: this replica's gradients, without None.
      variables: the variable of each gradient.
      divisor: float32 scalar tensor by which to unscale the gradients, or None if they
        are unscaled.
      aggregate: whether to aggregate the gradients over the replicas; False if the
        caller has done it.
      name: name for the operations of the inner optimizer, or None.

    Returns:
      What `apply.apply_or_skip` returns.
    """
    if divisor is not None:
        gradients = face.unscale(gradients, variables, divisor)
    if aggregate:
        gradients, variables = face.aggregate_inner(gradients, variables)
    gradients = gradients_lib.with_summed_rows(gradients)
    gradients, scale = _before_unscaling(face, gradients)
    equal = aggregate and _are_equal(face, variables)

    def unscaled(gradients):
        if scale is None:
            return gradients
        return gradients_lib.unscale_gradients(gradients, scale)

    def judged(gradients):
        if scale is not None:
            return finite_lib.on_scaled(gradients, scale)
        if equal:
            return finite_lib.on_aggregated(gradients)
        return finite_lib.known(finite_lib.agreed(gradients))

    def verdict(gradients):
        loss_scale = face.loss_scale_state
        if loss_scale.takes_verdicts:
            return None, loss_scale.advance(judged(gradients), gradients)
        return loss_scale.update(gradients)

    def apply(gradients):
        return face.apply_inner(unscaled(gradients), variables, name)

    def skip(gradients):
        return face.skip(unscaled(gradients), variables)

    return apply_lib.apply_or_skip(verdict, gradients, apply, skip)


def _are_equal(face, variables):
    """Whether aggregated gradients are the same on each replica, so one can judge.

    What tf_lso did not aggregate may differ between replicas.
    """
    overwritten = any(gradients_lib.overwrites(v) for v in variables)
    return face.aggregates_in_full and not overwritten


def _before_unscaling(face, gradients):
    """Return the gradients as they were before unscaling and their scale, if that pays.

    Else return them as they are, and None. One replica of a traced function can unscale
    next to the update. This saves one pass over all gradients: a gradient that was just
    divided is still in the processor's cache when its variable is updated, and XLA does
    both in one loop. Nothing computes the quotients that were not used.
    """
    in_function = (
        not tf.executing_eagerly()
        and tf.compat.v1.get_default_graph().building_function
    )
    dense = all(
        isinstance(g, tf.Tensor) and g.dtype in gradients_lib.WIDE for g in gradients
    )
    if not (in_function and dense and replica.is_alone()):
        return gradients, None
    if finite_lib.are_few(gradients) or not face.loss_scale_state.takes_verdicts:
        return gradients, None
    return face.unscaled_gradients.before_unscaling(gradients) or (gradients, None)
