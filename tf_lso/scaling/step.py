"""One step of training, from scaled gradients to the next loss scale."""

import tensorflow as tf

from tf_lso.scaling import apply as apply_lib
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import replica


def _still_scaled(face, gradients):
    """Return the gradients before unscaling and the scale, if unscaling can wait.

    A traced function can unscale after the verdict, next to the update. This saves one
    pass over all gradients: a gradient that was just divided is still in the processor's
    cache when its variable is updated, and XLA does both in one loop.
    """
    in_function = (
        not tf.executing_eagerly()
        and tf.compat.v1.get_default_graph().building_function
    )
    if not in_function or not face.loss_scale_state.judges_scaled:
        return None
    if any(g.dtype not in gradients_lib.WIDE for g in gradients):
        return None
    sources = face.unscaled_gradients.sources(gradients)
    if None in sources or any(isinstance(g, tf.IndexedSlices) for g in gradients):
        return None
    if any(tensor is None for tensor, _ in sources):
        return None
    tensors, scales = zip(*[(tensor(), scale()) for tensor, scale in sources])
    return (list(tensors), scales[0]) if len({id(s) for s in scales}) == 1 else None


def apply_step(face, gradients, variables, *, divisor, aggregate, name=None):
    """Unscale, aggregate, judge, then apply or skip, and move the loss scale.

    Args:
      face: the optimizer: `loss_scale_state` (a `LossScale`), `unscale`,
        `unscaled_gradients`, `aggregate_inner`, `aggregates_in_full`, `apply_inner` and
        `skip_inner`.
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
    loss_scale = face.loss_scale_state
    if divisor is not None:
        gradients = face.unscale(gradients, variables, divisor)
    if aggregate:
        gradients, variables = face.aggregate_inner(gradients, variables)
    gradients = gradients_lib.with_summed_rows(gradients)
    scaled = replica.is_alone() and _still_scaled(face, gradients)
    if scaled:
        return _apply_scaled(face, *scaled, variables, name)
    # What tf_lso did not aggregate may differ between replicas, so they must agree.
    overwritten = any(gradients_lib.overwrites(v) for v in variables)
    equal = aggregate and face.aggregates_in_full and not overwritten
    return apply_lib.apply_or_skip(
        loss_scale.update_aggregated if equal else loss_scale.update,
        gradients,
        apply_fn=lambda gradients: face.apply_inner(gradients, variables, name),
        skip_fn=face.skip_inner,
    )


def _apply_scaled(face, tensors, scale, variables, name):
    """Judge one replica's gradients, then unscale and apply them, or skip."""
    return apply_lib.apply_or_skip(
        lambda tensors: face.loss_scale_state.update_scaled(tensors, scale),
        tensors,
        apply_fn=lambda tensors: face.apply_inner(
            gradients_lib.unscale_gradients(tensors, scale), variables, name
        ),
        skip_fn=face.skip_inner,
    )
