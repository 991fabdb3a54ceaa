"""The loss that a pass ends in: the compiled one or one that was passed."""

import inspect

import tensorflow as tf


def loss_of(model, keras, x, y, outputs, loss):
    """Return the loss of a batch, a scalar tensor, with what the model itself adds.

    `outputs` is what the model made of `x`. All else is as for `explain`.

    Raises:
      TypeError: if `loss` is no loss.
      ValueError: if there is no loss, or it is no scalar, or `y` does not fit it.
    """
    is_loss = isinstance(loss, (str, keras.losses.Loss))
    if not (is_loss or loss is None or callable(loss)):
        raise TypeError(
            "'loss' must be None, a string, a Loss of Keras or a function of y and the "
            f"model's outputs, but got: {loss!r}."
        )
    if loss is None and not _is_compiled(model) and not model.losses:
        raise ValueError(
            "'loss' is missing, and the model is not compiled. Pass loss=\"mse\", a "
            "Loss of Keras, or a function of y and the model's outputs that returns "
            "a scalar; or compile the model first."
        )
    try:
        if loss is None and _is_compiled(model):
            value, added = _compiled(model, x, y, outputs), []
        elif is_loss:
            _check_targets(y, outputs)
            # An empty model computes this loss as the model would in `fit`.
            empty = keras.Model(dtype="float32")
            empty.compile("sgd", loss)
            value, added = _compiled(empty, x, y, outputs), model.losses
        else:
            value, added = 0.0 if loss is None else loss(y, outputs), model.losses
    except (
        LookupError,
        TypeError,
        ValueError,
        tf.errors.InvalidArgumentError,
    ) as error:
        missing = ", and 'y' is missing" * (y is None)
        raise ValueError(
            f"Computing the loss failed{missing}. 'y' must be the targets that the loss "
            f"takes. {type(error).__name__}: {error}"
        ) from error
    if value is None:
        raise ValueError(
            "The loss must be a scalar, but the function returned None."
            if loss is not None
            else 'The model is compiled without a loss and adds none. Pass loss="mse", a '
            "Loss of Keras, or a function of y and the model's outputs."
        )
    return _scalar(tf.convert_to_tensor(value), added)


def _check_targets(y, outputs):
    # Keras 2 would take one array for each output, and skip the loss without targets.
    count = len([target for target in tf.nest.flatten(y) if target is not None])
    wanted = len(tf.nest.flatten(outputs))
    if count != wanted:
        raise ValueError(f"The model has {wanted} outputs, but 'y' has {count} arrays.")


def _is_compiled(model):
    # A model that overrides `compute_loss` may be compiled without a loss.
    has_loss = bool(getattr(model, "loss", None))
    return has_loss or getattr(model, "optimizer", None) is not None


def _compiled(model, x, y, outputs):
    arguments = {"x": x, "y": y, "y_pred": outputs, "sample_weight": None}
    if "training" in inspect.signature(model.compute_loss).parameters:
        arguments["training"] = True
    return model.compute_loss(**arguments)


def _scalar(value, added):
    """Return the sum of a loss and what a model adds.

    Raises:
      ValueError: if the loss is no scalar of floating point.
    """
    if value.shape.rank != 0:
        raise ValueError(
            f"The loss must be a scalar, but has the shape {value.shape}. Pass a "
            "function that reduces it, for instance by tf.reduce_mean, or a loss by its "
            'name, such as "mse".'
        )
    if not value.dtype.is_floating:
        raise ValueError(
            f"The loss must be of floating point, but has the dtype {value.dtype.name}."
        )
    return tf.add_n([value, *(tf.cast(one, value.dtype) for one in added)])
