"""The arguments of `explain`: checked and converted. Errors say what to pass."""

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


def check_scope():
    """Raise RuntimeError in the scope of several replicas, where no tape can watch."""
    strategy = tf.distribute.get_strategy()
    if tf.distribute.in_cross_replica_context() and strategy.num_replicas_in_sync > 1:
        raise RuntimeError(
            "explain() must be called outside of strategy.scope(), which is for several "
            "replicas at once."
        )


def keras_of(model):
    """Return the module with the public names of a model's Keras.

    Raises:
      TypeError: if it is no model.
    """
    for keras in map(keras_versions.public, keras_versions.imported()):
        if isinstance(model, keras.layers.Layer):
            return keras
    raise TypeError(
        "'model' must be a model of Keras 3 or Keras 2, but got: "
        f"{model!r}. For gradients of your own pass them to explain_gradients."
    )


def check_model(model, keras):
    """Raise ValueError if a model of a Keras cannot be run, or needs no loss scale."""
    if not model.built:
        raise ValueError(
            f"The model {model.name!r} is not built, so it has no weights to explain. Call "
            "it on a batch first, model(x), or train it for a step."
        )
    strategy = getattr(model, "distribute_strategy", tf.distribute.get_strategy())
    of_keras2 = keras_versions.is_keras2(keras_versions.package_of(keras.layers.Layer))
    if of_keras2 and strategy.num_replicas_in_sync > 1:  # its metrics would fail
        raise ValueError(
            f"The model {model.name!r} was made under a strategy of "
            f"{strategy.num_replicas_in_sync} replicas, which explain() cannot run. Make "
            "it once more outside of the strategy, and copy the weights: "
            "copy.set_weights(model.get_weights())."
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
    """Return a batch as tensors; float64 arrays become Keras's default, as in `fit`.

    Raises:
      TypeError: if it is a data set or has parts that are no arrays.
    """
    if isinstance(data, tf.data.Dataset) or inspect.isgenerator(data):
        raise TypeError(
            f"'{name}' must be one batch, but got {data!r}. Pass "
            "`x, y = next(iter(dataset))`."
        )

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
                f"dicts, but got: {one!r}."
            ) from error

    # A list of numbers is one array, as for `fit`.
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


def scale_of(optimizer, loss_scale):
    """Return the loss scale, a float, and in words where it comes from.

    Args:
      optimizer: an optimizer, or None.
      loss_scale: number, loss-scale object or scalar tensor, or None.

    Raises:
      TypeError: if `optimizer` is no optimizer.
      ValueError: if the scale is not positive and finite.
    """
    if loss_scale is not None:
        scale, source = loss_scale, "as passed"
    elif optimizer is None:
        return 1.0, "there is no optimizer: pass optimizer= or loss_scale="
    elif optimizer_validation.scales_the_loss(optimizer):
        # Keras 3's own has it under other names, the first from its first step on.
        names = ("loss_scale", "dynamic_scale", "initial_scale")
        scale = next(
            getattr(optimizer, name) for name in names if hasattr(optimizer, name)
        )
        source = f"of the optimizer, {type(optimizer).__name__}"
    elif getattr(optimizer, "loss_scale_factor", None):
        scale = optimizer.loss_scale_factor
        source = f"loss_scale_factor of the optimizer, {type(optimizer).__name__}"
    elif not (isinstance(optimizer, str) or hasattr(optimizer, "apply_gradients")):
        raise TypeError(
            f"'optimizer' must be an optimizer of Keras, but got: {optimizer!r}. Pass a "
            "number as loss_scale=."
        )
    else:
        name = optimizer if isinstance(optimizer, str) else type(optimizer).__name__
        return 1.0, f"{name} scales no loss"
    number = math.nan
    with contextlib.suppress(TypeError, ValueError):
        number = float(scale() if callable(scale) else scale)
    if not 0 < number < math.inf or isinstance(loss_scale, bool):
        raise ValueError(
            "'loss_scale' must be a positive finite number or a loss scale such as "
            f"tf_lso.FixedLossScale(128), but got: {scale!r}. Leave it out for that of "
            "the optimizer."
        )
    return number, source


def named_gradients(named_tensors):
    """Return the pairs of a name and a gradient, a list.

    Raises:
      TypeError: if they are no such pairs.
    """
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


# What Keras and TensorFlow raise where the data does not fit a model.
_MISFITS = (
    *(KeyError, TypeError, ValueError, UserWarning),
    *(tf.errors.InvalidArgumentError, tf.errors.UnimplementedError),
)


def called(model, x):
    """Return the outputs of a model in training.

    Raises:
      ValueError: if `x` does not fit the model.
    """
    parameters = inspect.signature(model.call).parameters.values()
    takes = any(p.name == "training" or p.kind is p.VAR_KEYWORD for p in parameters)
    try:
        with warnings.catch_warnings():
            # Keras 3 only warns where the structure of the inputs is another.
            warnings.filterwarnings("error", "The structure of `inputs` doesn't match")
            return model(x, training=True) if takes else model(x)
    except _MISFITS as error:
        got = tf.nest.map_structure(lambda one: getattr(one, "shape", one), x)
        wanted = getattr(model, "input_shape", None) if model.built else None
        expected = f" It takes inputs of the shape {wanted}." if wanted else ""
        raise ValueError(
            f"'x' must be what the model '{model.name}' is called with, but calling it "
            f"with {got} failed.{expected} Pass one batch as to `fit`. "
            f"{type(error).__name__}: {error}"
        ) from error
