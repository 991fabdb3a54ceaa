"""`compile` wraps optimizers by tf_lso, in place of Keras's own wrapping.

Keras 3's own LossScaleOptimizer is wrong under distribution, and no Keras knows the loss
scale of an experimental policy.
"""

import importlib
import inspect
import weakref
from typing import Any

import tensorflow as tf

from tf_lso import wrapping
from tf_lso.optimizers import binding, loss_scale_optimizer

# Optimizers that programs asked to leave as they are.
_left_bare: weakref.WeakSet[Any] = weakref.WeakSet()


def _compiled(optimizer, model, automatic=True):
    """Return the optimizer to compile a model with; remember those left as they are."""
    loss_scale = wrapping.loss_scale_of(model)
    if loss_scale is None or (loss_scale is wrapping.DEFAULT and not automatic):
        _left_bare.add(optimizer)
        return optimizer
    layers = wrapping.float16_layers(model)
    is_mixed = any(layer.variable_dtype != "float16" for layer in layers)
    if loss_scale is wrapping.DEFAULT and not is_mixed:
        return optimizer  # as in legacy; a warning tells when training begins
    return wrapping.wrap(optimizer, model)


def tell_of_unscaled(model):
    """Warn of optimizers that a model holds, and that train float16 without a scale."""
    if wrapping.loss_scale_of(model) is None:
        return
    for name, optimizer in _optimizers_in(model):
        if optimizer not in _left_bare:
            wrapping.tell_one(
                optimizer, model, f"{type(model).__name__}.{name.lstrip('_')}"
            )


def _optimizers_in(model):
    """Yield the optimizers among a model's attributes, each with its name."""
    seen = set()
    for name, value in list(vars(model).items()):
        if name.startswith("_self_"):  # TensorFlow's own list of the attributes
            continue
        if isinstance(value, dict):
            values = value.values()
        else:
            values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            if binding.is_optimizer(one) and id(one) not in seen:
                seen.add(id(one))
                yield name, one


def wrap_in_keras3(keras, ledger):
    """Wrap by tf_lso where a layer computes in float16.

    Keras's own wrapper is wrong under distribution, and knows no loss scale of a policy.
    """
    signature = inspect.signature(keras.Model.compile)

    @ledger.around(keras.Model, "compile")
    def compile(keras_compile, self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        arguments = given.arguments
        optimizer = keras.optimizers.get(arguments["optimizer"])
        if optimizer is not None:
            optimizer = _compiled(optimizer, self, arguments["auto_scale_loss"])
        arguments.update(optimizer=optimizer, auto_scale_loss=False)
        return keras_compile(*given.args, **given.kwargs)


def wrap_in_keras2(keras, ledger):
    """Make `compile` wrap by tf_lso, likewise."""

    # Private, since `compile` wraps what it was given in this method. TestCompile of
    # tests/policies/test_policies.py fails when it moves.
    @ledger.around(keras.Model, "_get_optimizer")
    def get_optimizer(original, self, optimizer):
        return tf.nest.map_structure(
            lambda one: _compiled(keras.optimizers.get(one), self), optimizer
        )

    @ledger.around(_model_without_eager_execution(keras), "_set_optimizer")
    def set_optimizer(original, self, optimizer):
        self.optimizer = get_optimizer(original, self, optimizer)


def _model_without_eager_execution(keras):
    # Private; tests/optimizers/test_tensorflow_1.py fails when it moves.
    return importlib.import_module(f"{keras.Model.__module__}_v1").Model


def keep_wrappers_in_graphs(keras, ledger):
    """Take a wrapped optimizer as it is, in a graph of TensorFlow 1.

    Keras 2 knows only its own first wrapper class there, and would wrap ours again.
    """

    @ledger.around(_model_without_eager_execution(keras), "_set_optimizer")
    def set_optimizer(original, self, optimizer):
        if isinstance(optimizer, loss_scale_optimizer.LossScaleOptimizer):
            self.optimizer = optimizer
        else:
            original(self, optimizer)


def look_before_training(keras, ledger):
    """Warn of each optimizer that trains float16 layers and scales no loss."""

    @ledger.around(keras.Model, "make_train_function")
    def make_train_function(original, self, *args, **kwargs):
        if getattr(self, "train_function", None) is None:  # once after `compile`
            tell_of_unscaled(self)
        return original(self, *args, **kwargs)
