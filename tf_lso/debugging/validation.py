"""The arguments of `explain`: checked, converted and called. Errors say what to pass."""

import contextlib
import inspect
import math
import warnings
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tf_lso import keras_versions, wrapping


def keras_of(model):
    """Return the public module of the Keras of a model that needs a scale and can be run."""
    for package in keras_versions.imported():
        keras = keras_versions.public(package)
        if isinstance(model, keras.layers.Layer):
            break
    else:
        raise TypeError(
            "'model' must be a model of Keras 3 or Keras 2, but got: "
            f"{model!r}. For gradients of your own pass them to explain_gradients."
        )
    if not model.built:
        raise ValueError(
            f"The model {model.name!r} is not built, so it has no weights to explain. Call "
            "it on a batch first, model(x), or train it for a step."
        )
    strategy = tf.distribute.get_strategy()
    if keras_versions.is_keras2(package):
        # Its metrics would fail.
        strategy = getattr(model, "distribute_strategy", strategy)
    if strategy.num_replicas_in_sync > 1:
        raise RuntimeError(
            "explain() runs on one replica, not in strategy.scope() of "
            f"{strategy.num_replicas_in_sync} replicas. A model of Keras 2 must also be "
            "made outside of it; copy.set_weights(model.get_weights()) makes it a copy."
        )
    dtypes = sorted({str(layer.compute_dtype) for layer in wrapping.all_layers(model)})
    if "float16" not in dtypes:
        raise ValueError(
            "No layer of 'model' computes in float16 (they compute in "
            f"{', '.join(dtypes)}), so it needs no loss scale and there is nothing to "
            "explain. Pass a model whose layers are made with the policy mixed_float16, "
            "by keras.mixed_precision.set_global_policy('mixed_float16') before them or "
            "dtype='mixed_float16' for each."
        )
    return keras


def batch_of(x, y, keras):
    """Return x and y as tensors of as many examples; float64 becomes Keras's default."""
    x, y = _tensors_of("x", x, keras), _tensors_of("y", y, keras)
    tensors = [one for one in tf.nest.flatten((x, y)) if isinstance(one, tf.Tensor)]
    sizes = {len(one) for one in tensors if one.shape.rank}
    if len(sizes) > 1:
        raise ValueError(
            "'x' and 'y' must have the same number of examples, but got arrays of "
            f"{', '.join(map(str, sorted(sizes)))}. Pass one batch of each."
        )
    if 0 in sizes:
        raise ValueError("'x' and 'y' must have examples, but got empty arrays.")
    return x, y


def _tensors_of(name, data, keras):
    def tensor(one):
        if one is None or tf.is_tensor(one):
            return one
        try:
            array = np.asarray(one)
            if array.dtype == np.float64:
                array = array.astype(keras.backend.floatx())
            return tf.convert_to_tensor(array)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"'{name}' must be arrays or tensors, alone or in lists, tuples and "
                f"dicts, but got: {one!r}. Of a data set pass one batch: "
                "`x, y = next(iter(dataset))`."
            ) from error

    # A list of numbers is one array, as for `fit`.
    numbers = (bool, int, float, list, tuple)
    if isinstance(data, (list, tuple)) and all(
        isinstance(one, numbers) for one in data
    ):
        return tensor(data)
    return tf.nest.map_structure(tensor, data)


def scale_of(*candidates):
    """Return the scale of the first candidate that is not None, and in words its source."""
    given = next((one for one in candidates if one is not None), None)
    if given is None:
        return 1.0, "none was passed, and there is no optimizer"
    scale, source = given, "as passed"
    if hasattr(given, "apply_gradients"):
        # Keras 3's own has it under other names, the first from its first step on.
        names = ("loss_scale", "dynamic_scale", "initial_scale", "loss_scale_factor")
        scale = next((getattr(given, n) for n in names if hasattr(given, n)), None)
        source = f"of {type(given).__name__}"
        if scale is None:
            return 1.0, f"{type(given).__name__} scales no loss"
    number = math.nan
    with contextlib.suppress(TypeError, ValueError):
        number = float(scale() if callable(scale) else scale)
    if not 0 < number < math.inf or isinstance(scale, bool):
        raise ValueError(
            "'loss_scale' must be a positive finite number, a loss scale such as "
            f"tf_lso.FixedLossScale(128) or an optimizer, but got: {scale!r}."
        )
    return number, source


def named_gradients(named_tensors):
    """Return the pairs of a name and a gradient, a list, or raise TypeError."""
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


@contextlib.contextmanager
def _misfits(message):
    """Raise ValueError where Keras or TensorFlow raises, or warns, that data does not fit."""
    try:
        with warnings.catch_warnings():
            # Keras 3 only warns where the structure of the inputs is another.
            warnings.filterwarnings("error", "The structure of `inputs` doesn't match")
            yield
    except (
        *(LookupError, TypeError, ValueError, UserWarning),
        *(tf.errors.InvalidArgumentError, tf.errors.UnimplementedError),
    ) as error:
        raise ValueError(f"{message} {type(error).__name__}: {error}") from error


def outputs_of(model, x):
    """Return the outputs of a model in training, or raise ValueError."""
    parameters = inspect.signature(model.call).parameters.values()
    takes = any(p.name == "training" or p.kind is p.VAR_KEYWORD for p in parameters)
    got = tf.nest.map_structure(lambda one: getattr(one, "shape", one), x)
    wanted = getattr(model, "input_shape", "any shape")
    with _misfits(
        f"'x' must be what the model {model.name!r} is called with, inputs of {wanted}, "
        f"but calling it with {got} failed."
    ):
        return model(x, training=True) if takes else model(x)


_LOSSES = (
    'loss="mse", a Loss of Keras, or a function of y and the model\'s outputs that '
    "returns a scalar of floating point, for instance by tf.reduce_mean"
)


def loss_of(model, keras, x, y, outputs, loss):
    """Return the loss of a batch, a scalar tensor, with what the model itself adds."""
    if not (loss is None or isinstance(loss, str) or callable(loss)):
        raise TypeError(f"'loss' must be {_LOSSES}, but got: {loss!r}.")
    # A model that overrides `compute_loss` may be compiled without a loss.
    names = ("loss", "optimizer")
    is_compiled = any(getattr(model, name, None) is not None for name in names)
    if loss is None and not is_compiled and not model.losses:
        raise ValueError(
            f"'loss' is missing, and the model is not compiled. Pass {_LOSSES}."
        )
    missing = ", and 'y' is missing" * (y is None)
    added = model.losses
    with _misfits(
        f"Computing the loss failed{missing}. 'y' must be the targets of it."
    ):
        if loss is None and is_compiled:
            value, added = _compiled(model, x, y, outputs), []
        elif isinstance(loss, (str, keras.losses.Loss)):
            # Keras 2 would take one array for each output, and skip the loss without.
            count = len([one for one in tf.nest.flatten(y) if one is not None])
            if count != len(tf.nest.flatten(outputs)):
                raise ValueError(f"'y' has {count} arrays, not one for each output.")
            # An empty model computes this loss as the model would in `fit`.
            empty = keras.Model(dtype="float32")
            empty.compile("sgd", loss)
            value = _compiled(empty, x, y, outputs)
        else:
            value = 0.0 if loss is None else loss(y, outputs)
    if value is not None:
        value = tf.convert_to_tensor(value)
    if value is None or value.shape.rank != 0 or not value.dtype.is_floating:
        got = None if value is None else f"{value.dtype.name} of shape {value.shape}"
        raise ValueError(f"The loss must be a scalar, but is {got}. Pass {_LOSSES}.")
    return tf.add_n([value, *(tf.cast(one, value.dtype) for one in added)])


def _compiled(model, x, y, outputs):
    arguments = {"x": x, "y": y, "y_pred": outputs, "sample_weight": None}
    if "training" in inspect.signature(model.compute_loss).parameters:
        arguments["training"] = True
    return model.compute_loss(**arguments)
