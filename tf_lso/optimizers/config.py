"""Make LossScaleOptimizers from the configs of any version of TensorFlow or Keras.

A serialized LossScaleOptimizer contains the dict "config". The keys of this dict depend on
the version that wrote the dict:

- TensorFlow 2.4-2.15, tf_keras and tf_lso write `inner_optimizer`, `dynamic`,
  `initial_scale` and `dynamic_growth_steps`.
- Keras 3 writes the same keys except `dynamic`. Keras 3 also writes `name` and the arguments
  of its base class of optimizers.
- TensorFlow 2.0-2.3 and tf_lso's experimental class write `optimizer` and `loss_scale`.
"""

import inspect
import re

from tf_lso.frameworks import keras_configs, keras_versions
from tf_lso.optimizers import validation
from tf_lso.scaling import loss_scale_configs
from tf_lso.scaling import rule as rule_lib

# In TensorFlow 2.4-2.8 the name of the experimental class ends with "v1". Since TensorFlow
# 2.9 the name of the class that wraps newer optimizers ends with "v3". The name of tf_lso's
# own experimental class begins with "experimental".
_WRAPPER = re.compile("(experimental|base)?lossscaleoptimizer(v1|v3)?")


def is_wrapper(config):
    return bool(_WRAPPER.fullmatch(keras_configs.short_name(config)))


# The modules of the two LossScaleOptimizers add them as "stable" and "experimental". This
# module cannot import those modules, because they import this one.
CLASSES: dict[str, type] = {}


def unbound(cls):
    """Return the class from which `binding.bound_class` made `cls`, or `cls` itself."""
    return vars(cls).get("_unbound", cls)


def deserialize(config, custom_objects=None, package=None, base=None):
    """Make the optimizer that a config of any version describes.

    If the config describes a LossScaleOptimizer of TensorFlow, Keras 3 or tf_keras, the
    result is a LossScaleOptimizer of tf_lso. If `package` is None, the config determines the
    package of Keras. If `base` is not None, the optimizer must be an instance of `base`.
    """
    config = keras_configs.checked(config)
    stable, experimental = CLASSES["stable"], CLASSES["experimental"]
    is_old = keras_configs.short_name(config).startswith("experimental")
    # In `custom_objects` a program may give the name "LossScaleOptimizer" to its own class,
    # even if the config contains another class name.
    names = ["LossScaleOptimizer"] if is_wrapper(config) and not is_old else []
    packages = [package] if package else keras_versions.imported()
    cls = keras_configs.custom_class(config, custom_objects, packages, *names)
    if is_wrapper(config) and (cls is None or keras_versions.is_of_one(cls)):
        is_old |= config.get("module") == experimental.__module__
        cls = experimental if is_old else stable
    if cls is None or not issubclass(cls, stable):
        return keras_configs.make(config, cls, custom_objects, package, base)
    # The class may be bound to one family of inner optimizers, and the inner optimizer in the
    # config may be of another family.
    cls = unbound(cls)
    if cls.from_config.__func__ is stable.from_config.__func__:
        return from_config(cls, config["config"], custom_objects, package)
    return cls.from_config(config["config"], custom_objects=custom_objects)


def from_config(cls, config, custom_objects=None, package=None):
    """Make a LossScaleOptimizer from a config that any version has written.

    If `cls` is the stable class itself, but its constructor cannot express the loss scale in
    the config, the result is an experimental LossScaleOptimizer.
    """
    stable, experimental = CLASSES["stable"], CLASSES["experimental"]
    config = keras_configs.plain_dict(config, "'config'")
    keys = ("inner_optimizer", "optimizer", "loss_scale")
    layout = [key for key in keys if config.get(key) is not None]
    if layout not in (["inner_optimizer"], ["optimizer", "loss_scale"]):
        raise ValueError(
            "The config of a LossScaleOptimizer must have either 'inner_optimizer' or "
            f"both 'optimizer' and 'loss_scale', but got {config!r}."
        )
    inner = config.pop(layout[0])
    if isinstance(inner, dict):
        family = cls._family_class
        package, base = (family.package, family.base) if family else (package, None)
        inner = deserialize(inner, custom_objects, package, base)
    if "loss_scale" in config:
        loss_scale = loss_scale_configs.get(config.pop("loss_scale"), custom_objects)
    elif issubclass(cls, experimental):
        loss_scale = _pop_loss_scale(config)
    else:
        return _made(cls, inner, config)
    if issubclass(cls, experimental):
        return cls(inner, loss_scale, **config)
    is_usual = type(loss_scale) in loss_scale_configs.CLASSES.values()
    if is_usual and getattr(loss_scale, "multiplier", 2) == 2:
        return cls(inner, **loss_scale_configs.arguments_of(loss_scale), **config)
    if unbound(cls) is stable:
        return experimental(inner, loss_scale, **config)
    raise ValueError(
        f"'loss_scale' of the config is {loss_scale!r}, which {cls.__name__} cannot have: "
        "it accepts a fixed scale, or a dynamic one with the multiplier 2."
    )


def _made(cls, inner, arguments):
    """Return an instance of `cls`, even if `cls` accepts only keyword arguments."""
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    if any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters):
        return cls(inner, **arguments)
    # The constructor of a class that Horovod makes accepts only keyword arguments. A call of
    # `cls` would fail, because the metaclass of Keras 2 passes the inner optimizer by position.
    return type.__call__(cls, inner_optimizer=inner, **arguments)


def _pop_loss_scale(config):
    """Make a `LossScale` from a stable optimizer's config. Remove all keys except "name"."""
    dynamic = config.pop("dynamic", True)
    validation.check_dynamic(dynamic)
    names = config.keys() & rule_lib.OF_OPTIMIZER.values()
    loss_scale = loss_scale_configs.make(dynamic, {n: config.pop(n) for n in names})
    others = config.keys() - {"name"}
    validation.check_keras3_arguments({key: config.pop(key) for key in others})
    return loss_scale
