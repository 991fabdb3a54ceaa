"""The hyperparameters that a wrapper of TensorFlow 2.4-2.15 delegated to its inner optimizer.

Examples are `opt.beta_1` and `opt.lr = 0.1`. Other attributes were not delegated.
"""

import inspect
import numbers

from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import optimizer_table as table

# The documentation of TensorFlow 2.4-2.15 shows `epsilon` as an attribute that is not
# delegated. The other names are properties of the wrapper itself.
_NOT_DELEGATED = {"epsilon", "name", "jit_compile", *table.KERAS3_DEFAULTS}


def dead_overrides(optimizer):
    """Return a list of the methods of a user's class that only OptimizerV2 would call."""
    names = ("_resource_apply_dense", "_resource_apply_sparse")
    return [name for name in names if hasattr(type(optimizer), name)]


def delegated_names(optimizer):
    """Return a frozenset of the names that a wrapper of `optimizer` delegates to it."""
    # An OptimizerV2 lists its hyperparameters itself. For other optimizers, take those of
    # the nearest base class that existed as an OptimizerV2. For each class that derives
    # from this base class, add the constructor arguments that the optimizer keeps as numbers.
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

    The public `learning_rate` of such an optimizer is a number even if it has a schedule.
    """
    return getattr(optimizer, "_learning_rate", None)


def read(optimizer, name):
    """Return a hyperparameter.

    Optimizers since TensorFlow 2.11 have no `decay`. For them the result is 0.
    """
    return getattr(optimizer, name, *([0.0] if name == "decay" else []))


def write(optimizer, name, value):
    """Set a hyperparameter and return True.

    If the optimizer has no `decay`, the value 0 changes nothing and False is returned. Any
    other value is refused.
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
