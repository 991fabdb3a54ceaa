"""Define `explain`, which finds where values of a training step overflow or become 0."""

from typing import Any

from tf_lso.debugging import (
    arguments_of_explain,
    backward,
    forward,
    observe,
    statistics,
)
from tf_lso.debugging.report import First, Report, Row
from tf_lso.frameworks import graphs

_HEALTHY = (
    "All values are finite, and few gradients that are not 0 become 0 in float16 at the "
    "loss scale {:g}."
)


def explain(
    model: Any,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    loss: Any = None,
    loss_scale: Any = None,
) -> Report:
    """Explain where values of one batch overflow or become 0, and find a suitable loss scale.

    The function runs one forward pass, as in training, and several backward passes in eager
    mode, each with another loss scale. These show which zeros of the first backward pass are
    numbers too small for float16, and whether the loss scale causes an overflow.

    Afterwards, even after an exception, the function restores variables (weights, batch
    statistics, metrics) and the random state of TensorFlow, Keras, NumPy and Python. It does
    not restore other state, such as a list that your own layer changes. If the model does
    not track a layer, the report treats this layer as code of the layer that calls it.

    Args:
      model: a built model of Keras 3 or Keras 2 with a layer that computes in float16.
      x: one batch of inputs, as for `train_on_batch`: an array or tensor, or a nested
        structure of them. If `y` is None, `x` may also be a tuple (x, y) or
        (x, y, sample_weight) from a data set.
      y: the targets of the batch. Defaults to None, for a loss that needs no targets.
      sample_weight: the weights of the examples. Defaults to None.
      loss: a `Loss` of Keras or a function that returns a scalar. `explain` calls `loss` with
        `y` and the outputs, and with `sample_weight` unless `sample_weight` is None. The
        model's own losses (`add_loss`, regularizers) are added to the result. Defaults to
        the loss that was passed to `compile`.
      loss_scale: a number, a `LossScale`, or an optimizer whose loss scale is used. For an
        optimizer without a loss scale, the scale is 1. Defaults to the model's optimizer.

    Returns:
      A `Report`. Print the report, or read its `first`, `layers` and `variables`.

    Raises:
      RuntimeError: if `explain` is called in a `tf.function`, in a graph, or in the scope of a
        strategy with several replicas.
      TypeError: if `model` is not a model, `loss` is not a function, or `x` is a whole
        data set.
      ValueError: if the model is not built, no layer computes in float16, the batch is
        empty, the loss is missing or not a scalar, or the scale is not positive and finite.

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

    Source: tf_lso adds `explain`; TensorFlow never had it. The ranges of values are those of
    Micikevicius et al., "Mixed Precision Training", 2018, https://arxiv.org/abs/1710.03740.
    """
    graphs.require_eager("explain")
    keras = arguments_of_explain.keras_of(model)
    scale = arguments_of_explain.scale_of(loss_scale, getattr(model, "optimizer", None))
    batch = arguments_of_explain.batch_of(x, y, sample_weight, keras)
    seen = observe.run(model, keras, batch, loss, scale)
    return Report(
        first=_first(batch, seen),
        loss=float(seen.loss),
        loss_scale=scale,
        fitting_scale=seen.fitting_scale,
        layers=[
            _row(seen, c.path, c, c.outputs, c.output_values, c.input_values)
            for c in seen.calls[1:] or seen.calls
        ],
        variables=[
            _row(seen, v.name, v.call, [v.raw], statistics.summarize([v.raw]))
            for v in seen.variables
        ],
    )


def _first(batch, seen):
    return (
        forward.first_in_data(batch)
        or forward.first_in_forward_pass(seen)
        or backward.first_that_is_not_finite(seen)
        or backward.first_that_vanishes(seen)
        or First(None, None, None, _HEALTHY.format(seen.scale))
    )


def _row(seen, name, call, tensors, values, inputs=None):
    (gradient, lost) = next(iter(seen.gradients_of(tensors[:1])), (None, 0.0))
    dtype = tensors[0].dtype.name if tensors else None
    return Row(name, call.path, dtype, inputs, values, gradient, lost)
