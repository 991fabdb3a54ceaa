"""The class of an instance, made once for each class that is called and each family.

It derives from that class, and from those of the family that `isinstance` and Keras's
`compile` ask for.
"""

from tf_lso import environment, keras_versions

environment.require_tensorflow()  # before an import of it fails

# ruff: noqa: E402
from tf_lso.optimizers import copying, families

_bound_classes: dict[tuple[type, type], type] = {}


def is_optimizer(value):
    """Whether `value` is an optimizer of Keras 3 or Keras 2, wrapped or not."""
    return families.family_of(value) is not None


def require_family(optimizer):
    """Return the class of the adapter to `optimizer`; TypeError if it is none."""
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
    """Return `cls` with the base classes that the family of `optimizer` needs."""
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
            "_unbound": cls,  # what programs call, and pickle finds by its name
            "_family_class": family,
        }
        bound = type(cls.__name__, (cls, *family.bases), namespace)
        keras_versions.register_as(cls, bound)
        _bound_classes[cls, family] = bound
    return _bound_classes[cls, family]


def the_inner(optimizer, inner_optimizer):
    """Return the one of two arguments that was given; raise TypeError for any other."""
    given = [o for o in (optimizer, inner_optimizer) if o is not None]
    if len(given) != 1:
        raise TypeError(
            "LossScaleOptimizer takes one optimizer, as its first argument 'optimizer' "
            f"or as 'inner_optimizer', but got {len(given) or None}. Pass an instance: "
            "tf.keras.optimizers.SGD(...)."
        )
    return given[0]


def unpickled(cls, state):
    """Return the optimizer that `LossScaleOptimizer._described` tells of."""
    inner_class, inner_config = state["inner"]
    scale_class, scale_config = state["scale"]
    inner = copying.made(inner_class, inner_config, state.get("attributes", {}))
    optimizer = cls.__new__(cls, inner)
    optimizer._start(
        inner, lambda: scale_class.from_config(scale_config), state["name"]
    )
    order, arrays = state["arrays"]
    layouts = optimizer._state.layouts_in(order)
    optimizer._state.defer(arrays, layouts, names=state.get("names"))
    return optimizer
