"""One step of training, from scaled gradients to the next loss scale."""

from tf_lso.scaling import apply as apply_lib
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib


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
    equal = aggregate and _are_equal(face, variables)

    def judged(gradients):
        if equal:
            return finite_lib.on_aggregated(gradients)
        return finite_lib.known(finite_lib.agreed(gradients))

    def verdict(gradients):
        loss_scale = face.loss_scale_state
        if loss_scale.takes_verdicts:
            return None, loss_scale.advance(judged(gradients), gradients)
        return loss_scale.update(gradients)

    def apply(gradients):
        return face.apply_inner(gradients, variables, name)

    def skip(gradients):
        return face.skip(gradients, variables)

    return apply_lib.apply_or_skip(verdict, gradients, apply, skip)


def _are_equal(face, variables):
    """Whether aggregated gradients are the same on each replica, so one can judge.

    What tf_lso did not aggregate may differ between replicas.
    """
    overwritten = any(gradients_lib.overwrites(v) for v in variables)
    return face.aggregates_in_full and not overwritten
