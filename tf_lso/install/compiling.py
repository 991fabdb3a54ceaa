"""Make `compile` wrap optimizers in tf_lso's wrapper instead of Keras's own wrapper."""

import importlib
import inspect
import weakref
from typing import Any

import tensorflow as tf

from tf_lso.frameworks import tf_private
from tf_lso.optimizers import binding, wrapping

# The optimizers that `compile` has not wrapped because the program asked for no loss scaling,
# by its policies or by `auto_scale_loss=False`. tf_lso does not warn about them.
_left_bare: weakref.WeakSet[Any] = weakref.WeakSet()


def _compiled(optimizer, model, automatic=True):
    """Return the optimizer, or its new wrapper if the model needs loss scaling.

    `automatic` is the argument `auto_scale_loss` of Keras 3's `compile`. A loss scale of a
    policy overrides `automatic=False`.
    """
    loss_scale = wrapping.loss_scale_of(model)
    if loss_scale is None or (loss_scale is wrapping.DEFAULT and not automatic):
        _left_bare.add(optimizer)
        return optimizer
    layers = wrapping.float16_layers(model)
    is_mixed = any(layer.variable_dtype != "float16" for layer in layers)
    if loss_scale is wrapping.DEFAULT and not is_mixed:
        # As in old versions of TensorFlow, an optimizer is not wrapped if all float16 layers
        # also have float16 variables. A warning appears when training begins.
        return optimizer
    return wrapping.wrap(optimizer, model)


def wrap_in_keras3(keras, ledger):
    """Make `compile` wrap optimizers in tf_lso's wrapper if a layer computes in float16.

    Keras's own wrapper trains wrongly on several replicas, and ignores the loss scale of a
    policy.
    """
    signature = inspect.signature(keras.Model.compile)

    @ledger.around(keras.Model, "compile")
    def compile(keras_compile, self, *args, **kwargs):
        try:
            given = signature.bind(self, *args, **kwargs)
        except TypeError:
            # Keras raises its own error about wrong arguments, which gets a hint at `--like`.
            return keras_compile(self, *args, **kwargs)
        given.apply_defaults()
        arguments = given.arguments
        optimizer = keras.optimizers.get(arguments["optimizer"])
        if optimizer is not None:
            optimizer = _compiled(optimizer, self, arguments["auto_scale_loss"])
        arguments.update(optimizer=optimizer, auto_scale_loss=False)
        return keras_compile(*given.args, **given.kwargs)


def add_get_optimizer(keras, ledger):
    """Add the method `_get_optimizer`, which wraps an optimizer if loss scaling is needed.

    Models with several optimizers call this method for each optimizer.
    """
    ledger.add_missing(keras.Model, {"_get_optimizer": _get_optimizer(keras)})


def _get_optimizer(keras):
    def get_optimizer(self, optimizer):
        return tf.nest.map_structure(
            lambda one: _compiled(keras.optimizers.get(one), self), optimizer
        )

    return get_optimizer


def wrap_in_keras2(keras, ledger):
    """Make `compile` wrap optimizers in tf_lso's wrapper if a layer computes in float16."""
    wrapped = _get_optimizer(keras)

    @ledger.around(keras.Model, "_get_optimizer")
    def get_optimizer(original, self, optimizer):
        return wrapped(self, optimizer)

    @ledger.around(_model_without_eager_execution(keras), "_set_optimizer")
    def set_optimizer(original, self, optimizer):
        self.optimizer = wrapped(self, optimizer)


def _model_without_eager_execution(keras):
    # Keras 2 has no public name for the class of models without eager execution.
    return importlib.import_module(f"{keras.Model.__module__}_v1").Model


def look_before_training(keras, ledger):
    """Warn about each optimizer that trains float16 layers and does not scale the loss."""

    @ledger.around(keras.Model, "make_train_function")
    def make_train_function(original, self, *args, **kwargs):
        # Warn only at the first training after `compile`. Until then `train_function` is None.
        is_first = getattr(self, "train_function", None) is None
        if is_first and wrapping.loss_scale_of(self) is not None:
            for name, optimizer in _optimizers_in(self):
                if optimizer not in _left_bare:
                    shown = f"{type(self).__name__}.{name.lstrip('_')}"
                    wrapping.warn_if_not_scaled(optimizer, self, shown)
        return original(self, *args, **kwargs)


def _optimizers_in(model):
    """Return pairs (attribute name, optimizer). Each optimizer of a model occurs once."""
    found = {}
    for name, value in list(vars(model).items()):
        values = list(value.values()) if isinstance(value, dict) else value
        for one in values if isinstance(values, (list, tuple)) else [value]:
            # The attributes in which TensorFlow tracks dependencies repeat the optimizers.
            if binding.is_optimizer(one) and not tf_private.is_of_tracking(name):
                found.setdefault(id(one), (name, one))
    return found.values()
