"""The arguments of `explain`: checked, converted and called. Errors say what to pass."""

import contextlib
import inspect
import math
import warnings
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tf_lso import keras_versions, wrapping
from tf_lso.optimizers import validation as optimizer_validation


def check_eager(caller):
    """Raise RuntimeError in a `tf.function` or a graph, where there are no numbers."""
    if not tf.executing_eagerly():
        raise RuntimeError(
            f"{caller}() must be called in eager code: it reads numbers. Call it outside "
            "of the tf.function."
        )


def keras_of(model):
    """Return the module with the public names of a model's Keras, or raise TypeError."""
    for keras in map(keras_versions.public, keras_versions.imported()):
        if isinstance(model, keras.layers.Layer):
            return keras
    raise TypeError(
        "'model' must be a model of Keras 3 or Keras 2, but got: "
        f"{model!r}. For gradients of your own pass them to explain_gradients."
    )


def check_model(model, keras):
    """Raise an error if a model of a Keras cannot be run, or needs no loss scale."""
    strategy = tf.distribute.get_strategy()
    if tf.distribute.in_cross_replica_context() and strategy.num_replicas_in_sync > 1:
        raise RuntimeError(
            "explain() must be called outside of strategy.scope(), which is for several "
            "replicas at once."
        )
    if not model.built:
        raise ValueError(
            f"The model {model.name!r} is not built, so it has no weights to explain. Call "
            "it on a batch first, model(x), or train it for a step."
        )
    strategy = getattr(model, "distribute_strategy", strategy)
    of_keras2 = keras_versions.is_keras2(keras_versions.package_of(keras.layers.Layer))
    if of_keras2 and strategy.num_replicas_in_sync > 1:  # its metrics would fail
        raise ValueError(
            f"explain() cannot run the model {model.name!r}, which was made under a "
            f"strategy of {strategy.num_replicas_in_sync} replicas. Make it once more "
            "outside of the strategy: copy.set_weights(model.get_weights())."
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


def tensors_of(name, data, keras):
    """Return a batch as tensors, or raise TypeError.

    Arrays of float64 become Keras's default, and a list of numbers is one array, as for
    `fit`.
    """

    def tensor(one):
        if one is None or tf.is_tensor(one):
            return one
        try:
            array = np.asarray(one)
            if array.dtype == np.float64:
                with np.errstate(over="ignore"):
                    array = array.astype(keras.backend.floatx())
            return tf.convert_to_tensor(array)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"'{name}' must be arrays or tensors, alone or in lists, tuples and "
                f"dicts, but got: {one!r}. Of a data set pass one batch: "
                "`x, y = next(iter(dataset))`."
            ) from error

    if isinstance(data, (list, tuple)) and all(
        isinstance(one, (bool, int, float, list, tuple)) for one in data
    ):
        return tensor(data)
    return tf.nest.map_structure(tensor, data)


def check_batch(x, y):
    """Raise ValueError unless all of x and y have the same number of examples, not 0."""
    sizes = {
        len(one)
        for one in tf.nest.flatten((x, y))
        if isinstance(one, tf.Tensor) and one.shape.rank
    }
    if len(sizes) > 1:
        raise ValueError(
            "'x' and 'y' must have the same number of examples, but got arrays of "
            f"{', '.join(map(str, sorted(sizes)))}. Pass one batch of each."
        )
    if 0 in sizes:
        raise ValueError("'x' and 'y' must have examples, but got empty arrays.")


def scale_of(*candidates):
    """Return the loss scale, a float, and in words where it comes from.

    Args:
      *candidates: numbers, loss scales and optimizers; the first that is not None counts.

    Raises:
      ValueError: if the scale is not positive and finite.
    """
    given = next((one for one in candidates if one is not None), None)
    if given is None:
        return 1.0, "none was passed, and there is no optimizer"
    scale, source = given, "as passed"
    if hasattr(given, "apply_gradients"):
        # Keras 3's own has it under other names, the first from its first step on.
        names = ["loss_scale", "dynamic_scale", "initial_scale"]
        if not optimizer_validation.scales_the_loss(given):
            names = ["loss_scale_factor"]
        source = f"of {type(given).__name__}"
        scale = next((getattr(given, n) for n in names if hasattr(given, n)), None)
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
    """Turn what Keras and TensorFlow raise of data that does not fit into ValueError."""
    try:
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
    wanted = getattr(model, "input_shape", None)
    expected = f" It takes inputs of the shape {wanted}." if wanted else ""
    with (
        _misfits(
            f"'x' must be what the model {model.name!r} is called with, but calling it "
            f"with {got} failed.{expected}"
        ),
        warnings.catch_warnings(),
    ):
        # Keras 3 only warns where the structure of the inputs is another.
        warnings.filterwarnings("error", "The structure of `inputs` doesn't match")
        return model(x, training=True) if takes else model(x)


def loss_of(model, keras, x, y, outputs, loss):
    """Return the loss of a batch, a scalar tensor, with what the model itself adds.

    `outputs` is what the model made of `x`. All else is as for `explain`.
    """
    if not (loss is None or isinstance(loss, str) or callable(loss)):
        raise TypeError(
            "'loss' must be None, a string, a Loss of Keras or a function of y and the "
            f"model's outputs, but got: {loss!r}."
        )
    # A model that overrides `compute_loss` may be compiled without a loss.
    names = ("loss", "optimizer")
    is_compiled = any(getattr(model, name, None) is not None for name in names)
    remedy = (
        'Pass loss="mse", a Loss of Keras, or a function of y and the model\'s outputs '
        "that returns a scalar of floating point, for instance by tf.reduce_mean."
    )
    if loss is None and not is_compiled and not model.losses:
        raise ValueError(f"'loss' is missing, and the model is not compiled. {remedy}")
    missing = ", and 'y' is missing" * (y is None)
    added = model.losses
    with _misfits(
        f"Computing the loss failed{missing}. 'y' must be the targets that it takes."
    ):
        if loss is None and is_compiled:
            value, added = _compiled(model, x, y, outputs), []
        elif isinstance(loss, (str, keras.losses.Loss)):
            # Keras 2 would take one array for each output, and skip the loss without.
            count = len([one for one in tf.nest.flatten(y) if one is not None])
            wanted = len(tf.nest.flatten(outputs))
            if count != wanted:
                raise ValueError(f"'y' has {count} arrays for {wanted} outputs.")
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
        raise ValueError(f"The loss must be a scalar, but is {got}. {remedy}")
    return tf.add_n([value, *(tf.cast(one, value.dtype) for one in added)])


def _compiled(model, x, y, outputs):
    arguments = {"x": x, "y": y, "y_pred": outputs, "sample_weight": None}
    if "training" in inspect.signature(model.compute_loss).parameters:
        arguments["training"] = True
    return model.compute_loss(**arguments)
