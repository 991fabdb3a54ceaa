"""Hyperparameters that a LossScaleOptimizer delegates to its inner (wrapped) optimizer.

For example, `opt.beta_1` reads a hyperparameter of the inner optimizer, and `opt.lr = 0.1` sets
one. As in TensorFlow 2.4-2.15, other attributes are not delegated.
"""

import inspect
import numbers

from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import optimizer_table as table

# TensorFlow 2.4-2.15 documents that `epsilon` is not delegated. The other names are properties
# of the LossScaleOptimizer itself.
_NOT_DELEGATED = {"epsilon", "name", "jit_compile", *table.KERAS3_DEFAULTS}


def dead_overrides(optimizer):
    """Return the names of OptimizerV2's update methods that an optimizer's class has.

    Only OptimizerV2, the base class of legacy optimizers, calls these methods.
    """
    names = ("_resource_apply_dense", "_resource_apply_sparse")
    return [name for name in names if hasattr(type(optimizer), name)]


def delegated_names(optimizer):
    """Return the names of the hyperparameters that a wrapper delegates to `optimizer`."""
    # A legacy optimizer lists its hyperparameters in `_hyper`. For a newer one they are in
    # `optimizer_table`, or else they are the constructor arguments that it stores as numbers.
    names = {"learning_rate", "lr", *getattr(optimizer, "_hyper", ())}
    classes = () if hasattr(optimizer, "_hyper") else type(optimizer).__mro__
    for cls in classes:
        legacy = table.of([cls.__name__]).hyperparameters
        if keras_versions.is_of_one(cls) and legacy:
            names.update(legacy)
            break
        if cls.__name__ in ("Optimizer", "TFOptimizer", "BaseOptimizer"):
            break
        if "__init__" in vars(cls):
            for name in inspect.signature(cls.__init__).parameters:
                value = vars(optimizer).get(name)
                if isinstance(value, numbers.Real) and not isinstance(value, bool):
                    names.add(name)
    return frozenset(names - _NOT_DELEGATED)


def rate_or_schedule(optimizer):
    """Return an optimizer's learning rate or schedule. Return None for legacy optimizers.

    The public property `learning_rate` returns the current value of a schedule instead.
    """
    return getattr(optimizer, "_learning_rate", None)


def read(optimizer, name):
    """Return the value of a hyperparameter. A missing `decay` is 0."""
    return getattr(optimizer, name, *([0.0] if name == "decay" else []))


def write(optimizer, name, value):
    """Set a hyperparameter, and return whether the optimizer was changed.

    If the optimizer has no `decay`, only 0 is accepted for it, which changes nothing.
    """
    if name != "decay" or hasattr(optimizer, name):
        setattr(optimizer, name, value)
        return True
    if value != 0:
        raise ValueError(
            f"'decay' cannot be set to {value!r}: optimizers since TensorFlow 2.11 have "
            "no decay. Give the optimizer the schedule InverseTimeDecay(learning_rate, "
            "decay_steps=1, decay_rate=decay) of its Keras's optimizers.schedules as the "
            "learning rate, which computes the same."
        )
    return False
