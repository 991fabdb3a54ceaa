"""The arguments of `explain`: checked, converted and called. Errors say what to pass."""

import contextlib
import inspect
import math

import numpy as np
import tensorflow as tf

from tf_lso import keras_versions, wrapping


def keras_of(model):
    """Return the public module of the Keras of a model that can be explained."""
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
    dtypes = sorted({str(layer.compute_dtype) for layer in wrapping.all_layers(model)})
    if "float16" not in dtypes:
        raise ValueError(
            "No layer of 'model' computes in float16 (they compute in "
            f"{', '.join(dtypes)}), so there is nothing to explain. Pass a model whose "
            "layers are made with the policy mixed_float16, by "
            "keras.mixed_precision.set_global_policy('mixed_float16') before them or "
            "dtype='mixed_float16' for each."
        )
    return keras


def _require_one_replica(model, is_keras2):
    strategy = tf.distribute.get_strategy()
    if is_keras2:  # the metrics of a model of several replicas would fail
        strategy = getattr(model, "distribute_strategy", strategy)
    if strategy.num_replicas_in_sync > 1:
        raise RuntimeError(
            "explain() runs on one replica, not in strategy.scope() of "
            f"{strategy.num_replicas_in_sync} replicas. A model of Keras 2 must also be "
            "made outside of it; copy.set_weights(model.get_weights()) makes it a copy."
        )


def scale_of(*candidates):
    """Return the scale of the first candidate that is not None, 1 without one."""
    given = next((one for one in candidates if one is not None), 1.0)
    if hasattr(given, "apply_gradients"):
        # Keras 3's own optimizer has `dynamic_scale` from its first step on.
        names = ("loss_scale", "dynamic_scale", "initial_scale", "loss_scale_factor")
        scales = [getattr(given, name, None) for name in names]
        given = next((scale for scale in scales if scale is not None), 1.0)
    number = math.nan
    with contextlib.suppress(TypeError, ValueError):
        number = float(given() if callable(given) else given)
    if not 0 < number < math.inf or isinstance(given, bool):
        raise ValueError(
            "'loss_scale' must be a positive finite number, a loss scale such as "
            f"tf_lso.FixedLossScale(128) or an optimizer, but got: {given!r}."
        )
    return number


def batch_of(x, y, sample_weight, keras):
    """Return (x, y, sample_weight) as tensors; float64 becomes Keras's default dtype."""
    if y is None and isinstance(x, tuple) and len(x) in (2, 3):
        # Keras reads a tuple that a data set yields in the same way. Several inputs of a
        # model without targets are a list or a dict.
        x, y, sample_weight = (*x, sample_weight)[:3]
    named = {"x": x, "y": y, "sample_weight": sample_weight}
    batch = tuple(_tensors_of(name, data, keras) for name, data in named.items())
    tensors = [one for one in tf.nest.flatten(batch) if isinstance(one, tf.Tensor)]
    sizes = {len(one) for one in tensors if one.shape.rank}
    if len(sizes) > 1:
        raise ValueError(
            "'x', 'y' and 'sample_weight' must have the same number of examples, but got "
            f"arrays of {', '.join(map(str, sorted(sizes)))}. Pass one batch of each."
        )
    if 0 in sizes:
        raise ValueError("'x' and 'y' must have examples, but got empty arrays.")
    return batch


def _tensors_of(name, data, keras):
    def tensor(one):
        if one is None or tf.is_tensor(one):
            return one
        if not hasattr(one, "shape"):
            raise TypeError(
                f"'{name}' must be arrays or tensors, alone or in lists, tuples and "
                f"dicts, but got: {one!r}. Of a data set pass one batch: "
                "`explain(model, next(iter(dataset)))`. Of numbers make an array."
            )
        array = np.asarray(one)
        is_double = array.dtype == np.float64
        return tf.convert_to_tensor(
            array, keras.backend.floatx() if is_double else None
        )

    return tf.nest.map_structure(tensor, data)


def outputs_of(model, x):
    """Return the outputs of a model in training."""
    parameters = inspect.signature(model.call).parameters.values()
    takes = any(p.name == "training" or p.kind is p.VAR_KEYWORD for p in parameters)
    return model(x, training=True) if takes else model(x)


_LOSSES = (
    "Compile the model with a loss, or pass a Loss of Keras or a function of y and the "
    "model's outputs that returns a scalar of floating point, for instance by "
    "tf.reduce_mean"
)


def loss_of(model, batch, outputs, loss):
    """Return the loss of a batch, a scalar tensor, with what the model itself adds."""
    # A model that overrides `compute_loss` may be compiled without a loss.
    names = ("loss", "optimizer")
    is_compiled = any(getattr(model, name, None) is not None for name in names)
    added = model.losses
    if loss is None and is_compiled:
        value, added = _compiled(model, batch, outputs), []
    elif loss is None:
        value = 0.0 if added else None
    else:
        value = _called(loss, batch, outputs)
    if value is not None:
        value = tf.convert_to_tensor(value)
    if value is None or value.shape.rank != 0 or not value.dtype.is_floating:
        got = "None" if value is None else f"{value.dtype.name} of shape {value.shape}"
        raise ValueError(f"The loss must be a scalar, but is {got}. {_LOSSES}.")
    return tf.add_n([value, *(tf.cast(one, value.dtype) for one in added)])


def _compiled(model, batch, outputs):
    x, y, sample_weight = batch
    arguments = {"x": x, "y": y, "y_pred": outputs, "sample_weight": sample_weight}
    if "training" in inspect.signature(model.compute_loss).parameters:
        arguments["training"] = True
    try:
        return model.compute_loss(**arguments)
    except (TypeError, ValueError) as error:
        if y is not None:
            raise
        raise ValueError("Computing the loss failed, and 'y' is missing.") from error


def _called(loss, batch, outputs):
    if not callable(loss):
        raise TypeError(f"'loss' must be a function, but got: {loss!r}. {_LOSSES}.")
    _, y, sample_weight = batch
    if sample_weight is not None:
        raise ValueError(
            "'sample_weight' must be None where 'loss' is passed, because only a compiled "
            "loss has weights. Let the function multiply by them itself."
        )
    return loss(y, outputs)
