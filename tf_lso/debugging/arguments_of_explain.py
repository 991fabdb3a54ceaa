"""Check the arguments of `explain` and compute the loss."""

import math

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import layers as layers_lib


def keras_of(model):
    """Return the public module of a model's Keras. Refuse what `explain` cannot run."""
    for package in keras_versions.imported():
        keras = keras_versions.public(package)
        if isinstance(model, keras.layers.Layer):
            break
    else:
        raise TypeError(
            f"'model' must be a model of Keras 3 or Keras 2, but got: {model!r}."
        )
    if not model.built:
        raise ValueError(
            f"The model {model.name!r} is not built, so it has no weights to explain. Call "
            "it on a batch first, model(x), or train it for a step."
        )
    _require_one_replica(model, keras_versions.is_keras2(package))
    dtypes = sorted(
        {str(layer.compute_dtype) for layer in layers_lib.all_layers(model)}
    )
    if "float16" not in dtypes:
        raise ValueError(
            "No layer of 'model' computes in float16 (they compute in "
            f"{', '.join(dtypes)}), so there is nothing to explain. Create the layers with "
            "the policy mixed_float16: call "
            "keras.mixed_precision.set_global_policy('mixed_float16') first, or pass "
            "dtype='mixed_float16' to each layer."
        )
    return keras


def _require_one_replica(model, is_keras2):
    strategy = tf.distribute.get_strategy()
    if is_keras2:
        # If a Keras 2 model was made for several replicas, its metrics fail in every scope. So
        # the strategy of the model decides.
        strategy = getattr(model, "distribute_strategy", strategy)
    if strategy.num_replicas_in_sync > 1:
        raise RuntimeError(
            "explain() runs on one replica, but was called for a strategy with "
            f"{strategy.num_replicas_in_sync} replicas. Call it outside strategy.scope(). "
            "Create a model of Keras 2 outside the scope too, and copy the weights into it: "
            "copy.set_weights(model.get_weights())."
        )


def scale_of(loss_scale, optimizer):
    """Return the value of `loss_scale`, or of the optimizer's scale, or 1, as a float."""
    scale = optimizer if loss_scale is None else loss_scale
    if scale is None:
        return 1.0
    if hasattr(scale, "apply_gradients"):
        # Keras 3's own LossScaleOptimizer has no `dynamic_scale` before its first step.
        names = ("loss_scale", "dynamic_scale", "initial_scale", "loss_scale_factor")
        scales = [getattr(scale, name, None) for name in names]
        scale = next((s for s in scales if s is not None), 1.0)
    number = float(scale() if callable(scale) else scale)
    if not 0 < number < math.inf:
        raise ValueError(
            "'loss_scale' must be a positive finite number or a loss scale such as "
            f"tf_lso.FixedLossScale(128), but got: {scale!r}."
        )
    return number


def batch_of(x, y, sample_weight, keras):
    """Return (x, y, sample_weight) as tensors, as Keras would pass them to the model."""
    if isinstance(x, tf.data.Dataset):
        raise TypeError(
            f"'x' must be one batch, but got: {x!r}. Pass one batch of the data set: "
            "`explain(model, next(iter(dataset)))`."
        )
    if y is None and isinstance(x, tuple) and len(x) in (2, 3):
        # Keras splits a tuple from a data set in the same way. So a model with several inputs
        # and no targets needs a list or a dict of inputs.
        x, y, sample_weight = (*x, sample_weight)[:3]

    def tensor(value):
        if value is None or tf.is_tensor(value):
            return value
        is_double = getattr(value, "dtype", None) == np.float64
        return tf.convert_to_tensor(
            value, keras.backend.floatx() if is_double else None
        )

    batch = tf.nest.map_structure(tensor, (x, y, sample_weight))
    tensors = [value for value in tf.nest.flatten(batch) if value is not None]
    if any(0 in tensor.shape for tensor in tensors):
        # Keras 2 computes a loss of 0 for an empty batch. The report would say that nothing is
        # wrong.
        raise ValueError("'x' and 'y' must contain examples, but got empty arrays.")
    return batch


def loss_of(model, batch, outputs, loss):
    """Return the loss of a batch, including the model's added losses, as a scalar tensor."""
    if loss is not None and not callable(loss):
        raise TypeError(
            "'loss' must be a function or a Loss of Keras, such as "
            f"keras.losses.MeanSquaredError(), but got: {loss!r}."
        )
    x, y, sample_weight = batch
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    # A model that overrides `compute_loss` may be compiled with an optimizer but without a
    # loss.
    is_compiled = getattr(model, "loss", None) or getattr(model, "optimizer", None)
    added = model.losses
    if loss is not None:
        value = loss(y, outputs, **weights)
    elif is_compiled:
        value, added = model.compute_loss(x=x, y=y, y_pred=outputs, **weights), []
    else:
        value = 0.0 if added else None
    if value is None or len(tf.shape(value)) > 0:
        raise ValueError(
            f"The loss must be a scalar, but got: {value!r}. Compile the model with a loss, "
            "or pass a Loss of Keras or a function of y and the model's outputs that returns "
            "a scalar, for instance by tf.reduce_mean."
        )
    value = tf.convert_to_tensor(value)
    return tf.add_n([value, *(tf.cast(term, value.dtype) for term in added)])
