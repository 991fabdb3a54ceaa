"""The public function `explain`: a pass of a model."""

from typing import Any

from tf_lso.debugging import advice, diagnosis, explanation, given, passing


def explain(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    loss: Any = None,
    optimizer: Any = None,
    loss_scale: Any = None,
) -> explanation.Report:
    """Explain what the loss scale does to one batch, and where a value overflows.

    Runs one forward pass, as in training, and its backward pass, eagerly and with the
    model's own dtypes. Further backward passes, at other scales, find the largest scale
    that fits. All that the passes change is restored, also after an exception: weights,
    batch statistics, metrics, seed generators and all random state; the optimizer and
    its scale are only read.

    Args:
      model: model of Keras 3 or Keras 2 of any kind, compiled or not, that is built and
        has a layer that computes in float16.
      x: one batch of inputs, arrays or tensors, alone or nested, as for `fit`.
      y: the targets of the batch, as for `fit`. None if the loss needs none.
      loss: the loss. None for the one that the model is compiled with; a str or a
        `Loss` of Keras, used for each output; or a function of `y` and the model's
        outputs that returns a scalar. What the model adds (`add_loss`, regularizers)
        counts too, as in `fit`.
      optimizer: the optimizer whose scale is used. Defaults to the model's. One that
        scales no loss counts as a scale of 1.
      loss_scale: number, or loss scale such as `tf_lso.FixedLossScale(128)`, to use in
        place of the optimizer's.

    Returns:
      A `Report`. Print it, or read `first`, `layers` and `variables`.

    Raises:
      RuntimeError: in a `tf.function`, a graph or the scope of several replicas.
      TypeError: if `model` is no model, `optimizer` no optimizer, or the data no arrays.
      ValueError: if the model is not built, no layer computes in float16, the data does
        not fit the model or is empty, the loss is missing or no scalar, or the scale is
        not positive and finite.

    Example:
    >>> import keras
    >>> import numpy as np
    >>> import tf_lso
    >>> model = keras.Sequential([
    ...     keras.Input([3]),
    ...     keras.layers.Dense(4, dtype="mixed_float16", name="hidden",
    ...                        kernel_initializer="ones"),
    ...     keras.layers.Dense(1, dtype="mixed_float16", name="large",
    ...                        kernel_initializer=keras.initializers.Constant(60000)),
    ... ])
    >>> x, y = np.full((2, 3), 4.0, "float32"), np.zeros((2, 1), "float32")
    >>> report = tf_lso.debugging.explain(model, x, y, loss="mse", loss_scale=1024)
    >>> report.first.kind, report.first.layer
    ('forward overflow', 'large')

    Source: an addition. The ranges: Micikevicius et al., "Mixed Precision Training",
    2018, https://arxiv.org/abs/1710.03740.
    """
    given.check_eager("explain")
    given.check_scope()
    keras = given.keras_of(model)
    scale, scale_from = given.scale_of(
        getattr(model, "optimizer", None) if optimizer is None else optimizer,
        loss_scale,
    )
    x, y = given.tensors_of("x", x, keras), given.tensors_of("y", y, keras)
    given.check_batch(x, y)
    given.check_built(model)
    given.check_float16(model)
    seen = passing.run(model, keras, x, y, loss, scale)
    return explanation.Report(
        first=_first(seen, scale, given.first_nonfinite(x, y)),
        loss=seen.loss,
        loss_scale=scale,
        scale_from=scale_from,
        fitting_scale=seen.fitting_scale,
        layers=[_layer(call) for call in seen.calls[1:]],
        variables=[explanation.VariableGradient(*one) for one in seen.variables],
    )


def _first(seen, scale, bad_data):
    if bad_data is not None:
        return explanation.First("input", None, None, advice.of_input(*bad_data))
    fitting = seen.fitting_scale
    if place := diagnosis.forward(seen.calls, seen.loss_values):
        layer = place.call and place.call.layer
        message = advice.of_forward(
            place,
            getattr(layer, "compute_dtype", None),
            seen.weights.get(id(layer), []),
        )
    elif place := diagnosis.backward(seen.calls, fitting is not None):
        message = advice.of_backward(place, scale, fitting)
    elif place := diagnosis.underflow(seen.calls):
        message = advice.of_underflow(place, scale, fitting)
    else:
        return explanation.First(None, None, None, advice.of_nothing(scale, fitting))
    call = place.call
    return explanation.First(
        place.kind, call and call.name, call and call.path, message
    )


def _layer(call):
    return explanation.LayerCall(
        layer=call.name,
        path=call.path,
        call=call.number,
        dtype=call.outputs[0].dtype.name if call.outputs else None,
        outputs=call.output_values,
        gradient=call.output_gradients[0] if call.output_gradients else None,
    )
