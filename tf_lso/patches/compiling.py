"""`compile` wraps optimizers by tf_lso, in place of Keras's own wrapping.

Keras 3's own LossScaleOptimizer is wrong under distribution, and no Keras knows the loss
scale of an experimental policy.
"""

import importlib
import inspect
import weakref
from typing import Any

import tensorflow as tf

from tf_lso.optimizers import binding, wrapping

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


def patch_keras3(keras, ledger):
    """Make `compile` of Keras 3 wrap by tf_lso."""
    (owner,) = [cls for cls in keras.Model.__mro__ if "compile" in vars(cls)][-1:]
    keras_compile = vars(owner)["compile"]

    signature = inspect.signature(keras_compile)

    def compile(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        arguments = given.arguments
        optimizer = keras.optimizers.get(arguments["optimizer"])
        if optimizer is not None:
            optimizer = _compiled(optimizer, self, arguments["auto_scale_loss"])
        arguments.update(optimizer=optimizer, auto_scale_loss=False)
        return keras_compile(*given.args, **given.kwargs)

    ledger.replace(owner, "compile", compile)


def patch_keras2(keras, ledger):
    """Make `compile` of Keras 2 wrap by tf_lso."""

    # Private, since `compile` wraps what it was given in this method. TestCompile of
    # tests/policies/test_policies.py fails when it moves.
    def chosen(model, optimizer):
        return tf.nest.map_structure(
            lambda one: _compiled(keras.optimizers.get(one), model), optimizer
        )

    def get_optimizer(self, optimizer):
        return chosen(self, optimizer)

    def set_optimizer(self, optimizer):
        self.optimizer = chosen(self, optimizer)

    owner = keras.Model
    # The class of models without eager execution. It is private too;
    # tests/optimizers/test_tensorflow_1.py fails when it moves.
    owner_v1 = importlib.import_module(f"{owner.__module__}_v1").Model
    ledger.replace(owner, "_get_optimizer", get_optimizer)
    ledger.replace(owner_v1, "_set_optimizer", set_optimizer)


def patch_training(keras, ledger):
    """Let training begin with a look at the optimizers."""
    (owner,) = [c for c in keras.Model.__mro__ if "make_train_function" in vars(c)][:1]
    original = vars(owner)["make_train_function"]

    def make_train_function(self, *args, **kwargs):
        if getattr(self, "train_function", None) is None:  # once after `compile`
            tell_of_unscaled(self)
        return original(self, *args, **kwargs)

    ledger.replace(owner, "make_train_function", make_train_function)


PATCHES = {
    3: (patch_keras3, patch_training),
    2: (patch_keras2, patch_training),
}
