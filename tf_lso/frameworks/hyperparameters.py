"""Hyperparameters that wrappers of TensorFlow 2.4-2.15 delegated to inner optimizers.

For example, `opt.beta_1` and `opt.lr = 0.1` on a wrapper read and set a hyperparameter of the
inner optimizer. Other attributes were not delegated.
"""

import inspect
import numbers

from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import optimizer_table as table

# The names that a wrapper does not delegate. The documentation of TensorFlow 2.4-2.15 gives
# `epsilon` as an example. The other names are properties of the wrapper itself.
_NOT_DELEGATED = {"epsilon", "name", "jit_compile", *table.KERAS3_DEFAULTS}


def dead_overrides(optimizer):
    """Return the names of an optimizer's methods that only OptimizerV2 would call."""
    names = ("_resource_apply_dense", "_resource_apply_sparse")
    return [name for name in names if hasattr(type(optimizer), name)]


def delegated_names(optimizer):
    """Return a frozenset of the names that a wrapper delegates to its inner `optimizer`."""
    # An OptimizerV2 lists its hyperparameters itself. For other optimizers, find the nearest
    # base class that existed as an OptimizerV2, and use the hyperparameters of that class.
    # From each class that derives from the base class, add the constructor arguments whose
    # values the optimizer stores as numbers.
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
    """Return the learning rate, which may be a schedule. Return None for legacy optimizers.

    The public `learning_rate` of a newer optimizer is a number even if there is a schedule.
    """
    return getattr(optimizer, "_learning_rate", None)


def read(optimizer, name):
    """Return the value of a hyperparameter.

    Optimizers since TensorFlow 2.11 have no `decay`, so the function returns 0 for `decay`.
    """
    return getattr(optimizer, name, *([0.0] if name == "decay" else []))


def write(optimizer, name, value):
    """Set a hyperparameter, and return whether the optimizer was changed.

    If the optimizer has no `decay`, the function accepts only 0 for `decay`, changes nothing
    and returns False. Any other value raises ValueError.
    """
    if name != "decay" or hasattr(optimizer, name):
        setattr(optimizer, name, value)
        return True
    if value != 0:
        raise ValueError(
            f"'decay' cannot be set to {value!r}: optimizers since TensorFlow 2.11 have "
            "none. Give the optimizer the learning rate "
            "InverseTimeDecay(learning_rate, decay_steps=1, decay_rate=decay) of its "
            "Keras's optimizers.schedules, which computes the same."
        )
    return False
