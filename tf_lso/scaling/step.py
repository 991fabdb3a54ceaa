"""One step of training, from scaled gradients to the next loss scale."""

from tf_lso.scaling import apply as apply_lib
from tf_lso.scaling import gradients as gradients_lib


def apply_step(face, gradients, variables, *, unscale, aggregate, name=None):
    """Unscale, aggregate, judge, then apply or skip, and move the loss scale.

    Args:
      face: the optimizer: `loss_scale_state` (a `LossScale`), `aggregate_inner`,
        `aggregates_in_full`, `apply_inner` and `skip_inner`.
      gradients: this replica's gradients, without None.
      variables: the variable of each gradient.
      unscale: whether the gradients are still multiplied by the loss scale.
      aggregate: whether to sum the gradients over the replicas; False where the
        caller has done it.
      name: name for the operations of the inner optimizer, or None.

    Returns:
      What `apply.apply_or_skip` returns.
    """
    loss_scale = face.loss_scale_state
    if unscale:
        gradients = gradients_lib.unscale_of(variables, gradients, loss_scale())
    if aggregate:
        gradients, variables = face.aggregate_inner(gradients, variables)
    gradients = [gradients_lib.with_summed_rows(g) for g in gradients]
    # What tf_lso did not sum itself may differ between replicas; they must agree.
    equal = aggregate and face.aggregates_in_full
    return apply_lib.apply_or_skip(
        loss_scale.update_aggregated if equal else loss_scale.update,
        gradients,
        apply_fn=lambda gradients: face.apply_inner(gradients, variables, name),
        skip_fn=face.skip_inner,
    )
