"""The public functions: `explain` for a model, `explain_gradients` for gradients."""

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from tf_lso import graphs
from tf_lso.debugging import diagnosis, instrumented_pass, statistics, validation
from tf_lso.debugging.report import LayerCall, Report, VariableGradient


def explain(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    loss: Any = None,
    optimizer: Any = None,
    loss_scale: Any = None,
) -> Report:
    """Explain what the loss scale does to one batch, and where a value overflows.

    Runs one forward pass, as in training, and backward passes at several scales, eagerly.
    Afterwards, also after an exception, variables (weights, batch statistics, metrics) and
    the random state of TensorFlow, Keras, NumPy and Python are restored. What a layer of
    your own changes beside its variables, such as a list, stays changed.

    Args:
      model: a built model of Keras 3 or Keras 2 with a layer that computes in float16.
      x: one batch of inputs, arrays or tensors, alone or nested, as for `fit`.
      y: the targets of the batch, as for `fit`. None if the loss needs none.
      loss: None for that of `compile`; a str or a `Loss` of Keras, for each output; or a
        function of `y` and the outputs that returns a scalar. What the model adds
        (`add_loss`, regularizers) counts too.
      optimizer: whose scale is read, by default the model's. Without a scale it is 1.
      loss_scale: number or loss scale, to use in place of the optimizer's.

    Returns:
      A `Report`. Print it, or read `first`, `layers` and `variables`.

    Raises:
      RuntimeError: in a `tf.function`, a graph or the scope of several replicas.
      TypeError: if `model` is no model, `loss` no loss, or the data no arrays.
      ValueError: if the model is not built, no layer computes in float16, the data does
        not fit the model or is empty, the loss is missing or no scalar, or the scale is
        not positive and finite.

    Example:
    >>> import keras
    >>> import numpy as np
    >>> import tf_lso
    >>> large = keras.layers.Dense(1, dtype="mixed_float16", name="large")
    >>> model = keras.Sequential([keras.Input([3]), large])
    >>> _ = large.kernel.assign(np.full((3, 1), 60000.0))
    >>> x, y = np.full((2, 3), 4.0), np.zeros((2, 1))
    >>> report = tf_lso.debugging.explain(model, x, y, loss="mse", loss_scale=1024)
    >>> report.first.kind, report.first.layer
    ('forward overflow', 'large')

    Source: an addition. The ranges: Micikevicius et al., "Mixed Precision Training",
    2018, https://arxiv.org/abs/1710.03740.
    """
    graphs.require_eager("explain")
    keras = validation.keras_of(model)
    own = getattr(model, "optimizer", None)
    scale, scale_from = validation.scale_of(loss_scale, optimizer, own)
    x, y = validation.batch_of(x, y, keras)
    moments, value, variables, fitting = instrumented_pass.run(
        model, keras, x, y, loss, scale
    )
    return Report(
        first=diagnosis.first_of_data(_floats(x=x, y=y))
        or diagnosis.first_of_pass(moments, value, scale, fitting),
        loss=value,
        loss_scale=scale,
        scale_from=scale_from,
        fitting_scale=fitting,
        layers=[_layer_call(call) for call, begins in moments[1:] if begins],
        variables=variables,
    )


def _floats(**batch):
    """Return {name: array} of the parts of a batch that are of floating point."""
    flat = {name: tf.nest.flatten(data) for name, data in batch.items()}
    return {
        name if len(parts) == 1 else f"{name}, part {index},": part.numpy()
        for name, parts in flat.items()
        for index, part in enumerate(parts)
        if isinstance(part, tf.Tensor) and part.dtype.is_floating
    }


def _layer_call(call):
    return LayerCall(
        layer=call.layer.name,
        path=call.path,
        call=call.number,
        dtype=call.outputs[0].dtype.name if call.outputs else None,
        outputs=call.output_values,
        gradient=call.output_gradients[0] if call.output_gradients else None,
    )


def explain_gradients(
    named_tensors: Mapping[str, Any] | Iterable[tuple[str, Any]],
    *,
    loss_scale: Any = None,
    scaled: bool = True,
) -> Report:
    """Explain gradients that a training loop of one's own computed.

    Args:
      named_tensors: dict of name -> gradient, or iterable of such pairs, in the order of
        the forward pass. Gradients are tensors, `tf.IndexedSlices`, arrays, or None.
      loss_scale: number, loss scale such as `tf_lso.FixedLossScale(128)`, or
        LossScaleOptimizer: what the loss was multiplied by. Defaults to 1.
      scaled: bool, whether the gradients are still multiplied by it, as those of
        `tape.gradient` are.

    Returns:
      A `Report` without layers. `first.layer` is the name of the last gradient that is
      not finite, which the backward pass computes first. "underflow" is told of values
      that are not 0 in the tensor, but would be in float16.

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
    graphs.require_eager("explain_gradients")
    scale, scale_from = validation.scale_of(loss_scale)
    pairs = validation.named_gradients(named_tensors)
    gradients = [
        None if g is None else statistics.gradient_alone(g.numpy(), scale, scaled)
        for g in instrumented_pass.dense([gradient for _, gradient in pairs])
    ]
    variables = [VariableGradient(n, None, g) for (n, _), g in zip(pairs, gradients)]
    return Report(
        first=diagnosis.first_of_gradients(variables, scale),
        loss_scale=scale,
        scale_from=scale_from,
        variables=variables,
    )
