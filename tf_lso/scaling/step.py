"""One step of training, from scaled gradients to the next loss scale."""

from tf_lso.scaling import apply as apply_lib
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib


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
    kwargs=None,
):
    """Unscale, aggregate, judge, move the loss scale, then apply or skip."""
    if divisor is not None:
        scaled = [
            None if gradients_lib.overwrites(v) or is_unscaled(g) else g
            for g, v in zip(gradients, variables)
        ]
        unscaled = gradients_lib.unscale_gradients(scaled, divisor)
        gradients = [g if u is None else u for g, u in zip(gradients, unscaled)]
    if aggregate:
        gradients, variables = family.aggregate(gradients, variables)
    gradients = gradients_lib.with_summed_rows(gradients)
    equal = aggregate and _are_equal(family, variables)

    def judged(gradients):
        if equal:
            return finite_lib.on_aggregated(gradients)
        return finite_lib.known(finite_lib.agreed(gradients))

    def verdict(gradients):
        if loss_scale.takes_verdicts:
            return None, loss_scale.advance(judged(gradients), gradients)
        return loss_scale.update(gradients)

    def apply(gradients):
        return family.apply(gradients, variables, *args, **(kwargs or {}))

    def skip(gradients):
        counter = getattr(family.counter(), "value", None)
        counter = family.counter() if counter is None or callable(counter) else counter
        return skipped.note(
            gradients, variables, counter, family.count_skipped, loss_scale
        )

    return apply_lib.apply_or_skip(verdict, gradients, apply, skip)


def _are_equal(face, variables):
    """Whether aggregated gradients are the same on each replica, so one can judge.

    What tf_lso did not aggregate may differ between replicas.
    """
    overwritten = any(gradients_lib.overwrites(v) for v in variables)
    return face.aggregates_in_full and not overwritten
