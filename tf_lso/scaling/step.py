"""One step of training, from scaled gradients to the next loss scale."""

import tensorflow as tf

from tf_lso.scaling import apply as apply_lib
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import replica


def _can_wait(loss_scale):
    """Whether gradients may be unscaled after the verdict, next to their update.

    In a traced function that is one reading of all gradients less: what has just been
    divided is still in the processor's cache when the variable is updated, and XLA does
    both in one loop. Several replicas must not wait: a sum of scaled gradients may
    overflow where that of unscaled ones does not.
    """
    return (
        not tf.executing_eagerly()
        and tf.compat.v1.get_default_graph().building_function
        and replica.is_alone()
        and loss_scale.judges_scaled
    )


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
    gradients = gradients_lib.with_summed_rows(gradients)
    scaled = gradients_lib.still_scaled(gradients) if _can_wait(loss_scale) else None
    if scaled is not None:
        tensors, scale = scaled
        return apply_lib.apply_or_skip(
            lambda tensors: loss_scale.update_scaled(tensors, scale),
            tensors,
            apply_fn=lambda tensors: face.apply_inner(
                gradients_lib.unscale_gradients(tensors, scale), variables, name
            ),
            skip_fn=face.skip_inner,
        )
    # What tf_lso did not sum itself may differ between replicas; they must agree.
    equal = aggregate and face.aggregates_in_full
    return apply_lib.apply_or_skip(
        loss_scale.update_aggregated if equal else loss_scale.update,
        gradients,
        apply_fn=lambda gradients: face.apply_inner(gradients, variables, name),
        skip_fn=face.skip_inner,
    )
