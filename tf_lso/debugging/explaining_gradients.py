"""The public function `explain_gradients`: gradients of a loop of one's own."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from tf_lso.debugging import advice, diagnosis, explanation, given, statistics
from tf_lso.scaling import gradients as gradients_lib


def explain_gradients(
    named_tensors: Mapping[str, Any] | Iterable[tuple[str, Any]],
    *,
    loss_scale: Any = None,
    scaled: bool = True,
) -> explanation.Report:
    """Explain gradients that a training loop of one's own computed.

    Args:
      named_tensors: dict of name -> gradient, or iterable of such pairs, in the order of
        the forward pass. Gradients are tensors, `tf.IndexedSlices`, arrays, or None.
      loss_scale: number, loss scale such as `tf_lso.FixedLossScale(128)`, or
        LossScaleOptimizer: the scale that the loss was multiplied by. Defaults to 1.
      scaled: bool, whether the gradients are still multiplied by it. Pass what
        `tape.gradient` returned: it shows overflows and values that became 0 best.

    Returns:
      A `Report` without layers. `first.layer` is the name of a gradient: the last one
      that is not finite, since the backward pass computes it first. "underflow" is told
      only of values that are not 0 in the tensor, but would be in float16.

    Raises:
      RuntimeError: in a `tf.function` or a graph.
      TypeError: if `named_tensors` are no pairs of a name and a gradient.
      ValueError: if the scale is not positive and finite.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> gradients = {"kernel": tf.constant([1e-3, 1e-9]), "bias": tf.constant([2.])}
    >>> report = tf_lso.debugging.explain_gradients(gradients)
    >>> report.first.kind, report.first.layer
    ('underflow', 'kernel')
    >>> report.variables[0].gradient.zero_without_scaling
    0.5

    Source: an addition.
    """
    given.check_eager("explain_gradients")
    if hasattr(loss_scale, "apply_gradients"):
        scale, scale_from = given.scale_of(loss_scale, None)
    elif loss_scale is None:
        scale, scale_from = 1.0, "none was passed"
    else:
        scale, scale_from = given.scale_of(None, loss_scale)
    variables = [
        explanation.VariableGradient(name, None, _given_gradient(one, scale, scaled))
        for name, one in _pairs(named_tensors)
    ]
    return explanation.Report(
        first=_first_of_gradients(variables, scale),
        loss=None,
        loss_scale=scale,
        scale_from=scale_from,
        fitting_scale=None,
        layers=[],
        variables=variables,
    )


def _pairs(named_tensors):
    if isinstance(named_tensors, Mapping):
        named_tensors = named_tensors.items()
    with contextlib.suppress(TypeError, ValueError):
        pairs = [(name, gradient) for name, gradient in named_tensors]
        if all(isinstance(name, str) for name, _ in pairs):
            return pairs
    raise TypeError(
        "'named_tensors' must be a dict of name -> gradient or pairs of them, but got: "
        f"{named_tensors!r}. Pass for instance "
        "{v.name: g for v, g in zip(variables, gradients)}."
    )


def _given_gradient(gradient, scale, scaled):
    if gradient is None:
        return None
    (gradient,) = gradients_lib.with_summed_rows([gradient])
    (tensor,) = gradients_lib.values_of([gradient])
    return statistics.gradient_alone(tensor.numpy(), scale, scaled)


def _first_of_gradients(variables, scale):
    known = [one for one in reversed(variables) if one.gradient is not None]
    for one in known:
        values = one.gradient.at_scale
        if values.nonfinite:
            kind = "backward overflow" if values.infinite else "backward nan"
            message = advice.of_gradient(one.name, values, scale)
            return explanation.First(kind, one.name, one.name, message)
    for one in known:
        if one.gradient.underflowed >= diagnosis.UNDERFLOW:
            message = advice.of_lost_gradient(one.name, one.gradient, scale)
            return explanation.First("underflow", one.name, one.name, message)
    return explanation.First(None, None, None, advice.of_nothing(scale, None))
