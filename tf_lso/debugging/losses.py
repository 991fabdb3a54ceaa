"""The loss that a pass ends in: the compiled one or one that was passed."""

import inspect

import tensorflow as tf


def loss_of(model, keras, x, y, outputs, loss):
    """Return the loss of a batch, a scalar tensor, with what the model itself adds.

    `outputs` is what the model made of `x`. All else is as for `explain`.

    Raises:
      ValueError: if there is no loss, or it is no scalar, or `y` does not fit it.
    """
    try:
        if loss is not None:
            value = _given(model, keras, y, outputs, loss)
        elif _is_compiled(model):
            value = _compiled(model, x, y, outputs)
        elif model.losses:
            value = tf.add_n([tf.cast(one, tf.float32) for one in model.losses])
        else:
            raise ValueError(
                "'loss' is missing, and the model is not compiled. Pass loss=\"mse\", a "
                "Loss of Keras, or a function of y and the model's outputs that returns "
                "a scalar; or compile the model first."
            )
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(
            f"Computing the loss failed. 'y' must be the targets that it takes. {error}"
        ) from error
    if value is None:
        raise ValueError("The loss must be a scalar, but the function returned None.")
    if not tf.is_tensor(value):
        value = tf.convert_to_tensor(value)
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
    return value


def _is_compiled(model):
    # A model that overrides `compute_loss` may be compiled without a loss.
    return getattr(model, "optimizer", None) is not None or bool(
        getattr(model, "loss", None)
    )


def _compiled(model, x, y, outputs):
    arguments = {"x": x, "y": y, "y_pred": outputs, "sample_weight": None}
    if "training" in inspect.signature(model.compute_loss).parameters:
        arguments["training"] = True
    try:
        value = model.compute_loss(**arguments)
    except (TypeError, ValueError) as error:
        missing = " 'y' is missing: pass the targets if it needs them." * (y is None)
        raise ValueError(
            f"Computing the compiled loss failed.{missing} {error}"
        ) from error
    if value is None:
        raise ValueError(
            'The model is compiled without a loss and adds none. Pass loss="mse", a '
            "Loss of Keras, or a function of y and the model's outputs."
        )
    return value


def _given(model, keras, y, outputs, loss):
    if isinstance(loss, (str, keras.losses.Loss)):
        function = _in_loss(keras, keras.losses.get(loss))
        targets, values = tf.nest.flatten(y), tf.nest.flatten(outputs)
        if len(targets) != len(values):
            raise ValueError(
                f"'y' must have an array for each output of the model, but got "
                f"{len(targets)} for {len(values)}."
            )
        value = tf.add_n([_one(function, *pair) for pair in zip(targets, values)])
    elif callable(loss):
        value = loss(y, outputs)
    else:
        raise TypeError(
            "'loss' must be None, a string, a Loss of Keras or a function of y and the "
            f"model's outputs, but got: {loss!r}."
        )
    for own in model.losses:
        value += tf.cast(own, value.dtype)
    return value


def _in_loss(keras, function):
    """Return a `Loss`, which casts and reduces as `compile` has it."""
    if isinstance(function, keras.losses.Loss):
        return function

    class Named(keras.losses.Loss):
        def call(self, y_true, y_pred):
            return function(y_true, y_pred)

    return Named(name=function.__name__)


def _one(function, target, output):
    if target is None:
        raise ValueError("'y' is missing, and the loss needs it. Pass the targets.")
    rank = target.shape.rank
    if rank == output.shape.rank and target.shape[:-1] != output.shape[:-1]:
        raise ValueError(
            f"'y' must fit the model's outputs of the shape {output.shape}, but has the "
            f"shape {target.shape}."
        )
    if rank == output.shape.rank - 1:  # as `compile` does it, for "mse" and the like
        is_sparse = "sparse" in function.name
        target = target if is_sparse else tf.expand_dims(target, -1)
    return function(target, output)
