"""Make a subclass of LossScaleOptimizer for each family of inner optimizers.

The subclass derives from the class that the program called, and from Keras's own classes, so
that `isinstance` and `compile` treat the wrapper as an optimizer of the same family as the
inner optimizer.
"""

from typing import Any

import numpy as np

from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import optimizer_table as table
from tf_lso.optimizers import families


class _Missing:
    def __repr__(self):
        return "MISSING"


MISSING: Any = _Missing()

_bound_classes: dict[tuple[type, type], type] = {}


def is_optimizer(value):
    """Return whether `value` is an optimizer of Keras, or a LossScaleOptimizer of tf_lso."""
    return families.family_of(value) is not None


def require_family(optimizer):
    """Return the adapter class for an optimizer. Raise TypeError for other objects."""
    family = families.family_of(optimizer)
    if family is None:
        is_class = isinstance(optimizer, type)
        example = optimizer.__name__ if is_class else "tf.keras.optimizers.SGD"
        raise TypeError(
            "'optimizer' must be an instance of a Keras 3 or Keras 2 optimizer, but got "
            f"{optimizer!r} of {type(optimizer)}. Pass an instance: {example}(...)."
        )
    return family


def bound_class(cls, optimizer):
    """Return the subclass of `cls` for the family of `optimizer`.

    If `cls` is already for one family, return `cls`, or raise TypeError if it is another one.
    """
    family = require_family(optimizer)
    if cls._family_class is family:
        return cls
    if cls._family_class is not None:
        raise TypeError(
            "'optimizer' must be of the family that this class was made for, but got "
            f"{optimizer!r} of {type(optimizer)}. Call tf_lso.LossScaleOptimizer instead."
        )
    if (cls, family) not in _bound_classes:
        namespace = {
            **family.members,
            **{n: getattr(cls, n) for n in ("__module__", "__qualname__", "__doc__")},
            # Pickles refer to `cls`, because pickle cannot find the new subclass by its name.
            "_unbound": cls,
            "_family_class": family,
        }
        bound = type(cls.__name__, (cls, *family.bases), namespace)
        keras_versions.register_as(cls, bound, family.package)
        _bound_classes[cls, family] = bound
    return _bound_classes[cls, family]


def the_inner(optimizer, inner_optimizer):
    """Return the argument that was passed. Raise TypeError unless there is exactly one."""
    passed = [o for o in (optimizer, inner_optimizer) if o is not MISSING]
    if len(passed) != 1:
        raise TypeError(
            "LossScaleOptimizer accepts one optimizer, as its first argument 'optimizer' "
            f"or as 'inner_optimizer', but got {len(passed)}."
        )
    return passed[0]


def config_for_copy(inner):
    """Return a config for a copy. Raise ValueError if it lacks a setting of the optimizer."""
    for name in table.SETTINGS_NOT_IN_CONFIGS:
        value = getattr(inner, name, None)
        is_default = callable(value) and keras_versions.is_of_one(value)
        if value and not is_default:
            raise ValueError(
                f"{type(inner).__name__} cannot be copied, because its config does not "
                f"contain its {name.strip('_')}, which is {value!r}. Make the copy as the "
                "program made the optimizer, and copy the values: "
                "copied.set_weights(optimizer.get_weights())."
            )
    # Replace NumPy numbers. If a hyperparameter of a legacy optimizer is one, Keras 2 treats
    # the number like a variable, and fails to assign a new value to it.
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in inner.get_config().items()
    }


def _made(cls, config):
    try:
        return cls.from_config(config)
    except Exception as error:
        raise ValueError(
            f"{cls.__name__} cannot be copied, since from_config() cannot make it from "
            f"get_config(): {error} Define get_config() so that it contains all arguments "
            "of the constructor."
        ) from error


def unpickled(cls, state):
    """Make a copy of a LossScaleOptimizer from the result of its method `_described`."""
    inner = state.get("copied_inner")
    if inner is None:
        inner = _made(*state["inner"])
    scale_class, scale_config = state["scale"]
    loss_scale = scale_class.from_config(scale_config)
    optimizer = cls.__new__(cls, inner)
    optimizer._start(inner, lambda: loss_scale, state["name"])
    order, arrays = state["arrays"]
    layouts = optimizer._state.layouts_in(order)
    optimizer._state.defer(arrays, layouts, manifest=state.get("manifest"))
    return optimizer
