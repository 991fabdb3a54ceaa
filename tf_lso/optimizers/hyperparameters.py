"""Which attributes were hyperparameters of a legacy optimizer, and delegated.

A wrapper of TensorFlow 2.4-2.15 answered for the hyperparameters of its inner optimizer
(`opt.beta_1`, `opt.lr = 0.1`) and for nothing else of it.
"""

import inspect
import numbers

from tf_lso import kerases
from tf_lso.optimizers import table, validation

# Constructor arguments that the wrapper answers for by properties of its own.
COMMON = frozenset(("name", "jit_compile", *validation.KERAS3_DEFAULTS))

# Never delegated: the documentation of TensorFlow 2.4-2.15 shows it as the example.
NOT_DELEGATED = frozenset(("epsilon",))


def spelled(name):
    """Return today's name of a hyperparameter."""
    return table.ALIASES.get(name, name)


def dead_overrides(optimizer):
    """Return the names of a user's methods that only OptimizerV2 called, a list."""
    names = ("_resource_apply_dense", "_resource_apply_sparse")
    return [name for name in names if hasattr(type(optimizer), name)]


def _numeric_arguments(optimizer, cls):
    """Constructor arguments of `cls` that `optimizer` holds as numbers."""
    for name in inspect.signature(cls.__init__).parameters:
        value = vars(optimizer).get(name)
        if isinstance(value, numbers.Real) and not isinstance(value, bool):
            yield name


def delegated_names(optimizer, own=None):
    """Return the names that a wrapper of `optimizer` reads and sets on it, a frozenset.

    If it is an OptimizerV2, these are those that it knows itself, `own`. For others they
    are those of the legacy class of that name, the nearest among the optimizer's classes;
    for optimizers newer than that, and for what subclasses add, the numeric constructor
    arguments.
    """
    names = set(own or ())
    if own is None:
        for cls in type(optimizer).__mro__:
            legacy = table.of([cls.__name__]).hyperparameters
            if kerases.is_of_one(cls) and legacy:
                names.update(legacy)
                break
            if cls.__name__ in ("Optimizer", "TFOptimizer", "BaseOptimizer"):
                break
            if "__init__" in vars(cls):
                names.update(_numeric_arguments(optimizer, cls))
        names -= COMMON
    return frozenset({"learning_rate", "lr", *names} - NOT_DELEGATED)


def read(optimizer, name):
    """Return a hyperparameter of an optimizer newer than OptimizerV2."""
    if name == "decay" and not hasattr(optimizer, name):
        return 0.0  # the default of legacy optimizers; those since 2.11 have none
    return getattr(optimizer, name)


def write(optimizer, name, value):
    """Set the same; return whether steps that were traced before keep the old value."""
    if name != "decay" or hasattr(optimizer, name):
        setattr(optimizer, name, value)
        return True
    if value != 0:
        raise ValueError(
            f"'decay' cannot be set to {value!r}: optimizers since TensorFlow "
            "2.11 have none. Give the optimizer the learning rate "
            "InverseTimeDecay(learning_rate, decay_steps=1, decay_rate=decay) of "
            "its Keras's optimizers.schedules, which computes the same."
        )
    return False
