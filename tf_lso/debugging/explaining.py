"""The public function `explain`."""

from typing import Any

import tensorflow as tf

from tf_lso import graphs
from tf_lso.debugging import diagnosis, observe, statistics, validation
from tf_lso.debugging.report import LayerCall, Report


def explain(
    model: Any,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    loss: Any = None,
    optimizer: Any = None,
    loss_scale: Any = None,
) -> Report:
    """Explain where values of one batch overflow or vanish, and which loss scale fits.

    Runs one forward pass, as in training, and backward passes at several scales, eagerly.
    Afterwards, also after an exception, variables (weights, batch statistics, metrics) and
    the random state of TensorFlow, Keras, NumPy and Python are restored. What a layer of
    your own changes apart from its variables, such as a list, stays changed. A layer that
    the model does not track counts as code of the layer that calls it.

    Args:
      model: a built model of Keras 3 or Keras 2 with a layer that computes in float16.
      x: one batch of inputs, arrays or tensors, alone or nested, as for
        `train_on_batch`; or, without `y`, a tuple (x, y) or (x, y, sample_weight) as a
        data set yields it.
      y: the targets of the batch. None if the loss needs none.
      sample_weight: the weights of the examples, for a compiled loss. Defaults to None.
      loss: None for that of `compile`; or a `Loss` of Keras or a function, which is called
        with `y` and the outputs and returns a scalar. What the model adds (`add_loss`,
        regularizers) counts too.
      optimizer: the optimizer whose scale is read, by default the model's. Without a
        scale it is 1.
      loss_scale: number or loss scale, to use in place of the optimizer's.

    Returns:
      A `Report`. Print it, or read `first`, `layers` and `variables`.

    Raises:
      RuntimeError: in a `tf.function`, a graph or the scope of several replicas.
      TypeError: if `model` is not a model, `loss` not a function, or the data not arrays.
      ValueError: if the model is not built, no layer computes in float16, the batch is
        empty or of different lengths, the loss is missing or not a scalar, or the scale
        is not positive and finite.

    Example:
    >>> import keras
    >>> import numpy as np
    >>> import tf_lso
    >>> large = keras.layers.Dense(1, dtype="mixed_float16", name="large")
    >>> model = keras.Sequential([keras.Input([3]), large])
    >>> _ = large.kernel.assign(np.full((3, 1), 60000.0))
    >>> model.compile(tf_lso.LossScaleOptimizer(keras.optimizers.SGD()), loss="mse")
    >>> x, y = np.full((2, 3), 4.0), np.zeros((2, 1))
    >>> report = tf_lso.debugging.explain(model, x, y)
    >>> report.first.kind, report.first.layer
    ('forward overflow', 'large')

    Source: an addition. The ranges: Micikevicius et al., "Mixed Precision Training",
    2018, https://arxiv.org/abs/1710.03740.
    """
    graphs.require_eager("explain")
    keras = validation.keras_of(model)
    own = getattr(model, "optimizer", None)
    scale = validation.scale_of(loss_scale, optimizer, own)
    batch = validation.batch_of(x, y, sample_weight, keras)
    seen = observe.run(model, keras, batch, loss, scale)
    return Report(
        first=diagnosis.first_of(_values_of_data(batch), seen),
        loss=seen.loss,
        loss_scale=scale,
        fitting_scale=seen.fitting_scale,
        layers=[_layer_call(call) for call in seen.calls[1:] or seen.calls],
        variables=seen.variables,
    )


def _values_of_data(batch):
    """Return {name: `Values`} of the floating-point parts of a batch."""
    found = {}
    for name, data in zip(("x", "y", "sample_weight"), batch):
        parts = tf.nest.flatten(data)
        for index, part in enumerate(parts):
            if isinstance(part, tf.Tensor) and part.dtype.is_floating:
                shown = name if len(parts) == 1 else f"{name}, part {index},"
                found[shown] = statistics.values_of(part.numpy())
    return found


def _layer_call(call):
    return LayerCall(
        layer=call.layer.name,
        path=call.path,
        call=call.number,
        dtype=call.outputs[0].dtype.name if call.outputs else None,
        inputs=call.input_values,
        outputs=call.output_values,
        gradient=call.output_gradients[0] if call.output_gradients else None,
    )
