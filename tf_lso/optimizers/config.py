"""Make LossScaleOptimizers from configs of any generation.

| written by | keys |
|---|---|
| 2.4-2.15, tf_keras, tf_lso | inner_optimizer, dynamic, initial_scale, dynamic_growth_steps |
| Keras 3 | the same without dynamic, with name, and arguments of its base class |
| 2.0-2.3, tf_lso's experimental | optimizer, loss_scale |
"""

from tf_lso import kerases
from tf_lso.optimizers import inner_config, validation
from tf_lso.scaling import loss_scale as loss_scale_lib
from tf_lso.scaling import options

# The names under which LossScaleOptimizers were saved, in lower case and without a
# package. The first is tf_lso's experimental class.
_EXPERIMENTAL = "experimentallossscaleoptimizer"
_WRAPPERS = (
    _EXPERIMENTAL,
    "lossscaleoptimizer",
    "lossscaleoptimizerv1",  # the experimental one of 2.4-2.8
    "lossscaleoptimizerv3",  # around the newer optimizers, since 2.9
    "baselossscaleoptimizer",
)

# tf_lso writes this beside the class name in .h5 files and SavedModels of tf_keras.
IS_EXPERIMENTAL = {"tf_lso": "experimental"}


def _classes():
    """Return the stable and the experimental class."""
    # Late: both are above this module, and read configs by it.
    from tf_lso.optimizers import experimental, loss_scale_optimizer

    return loss_scale_optimizer.LossScaleOptimizer, experimental.LossScaleOptimizer


def _name(config):
    return config["class_name"].split(">")[-1].lower()


def is_wrapper(config):
    """Whether a serialized optimizer is a LossScaleOptimizer, by its name."""
    return _name(config) in _WRAPPERS


def deserialize(config, custom_objects=None, package=None, kind=None):
    """Return the optimizer or LossScaleOptimizer of a config of any generation, new.

    Args:
      config: dict {"class_name": ..., "config": {...}}, which is not changed. If it
        names a LossScaleOptimizer of any version, including Keras 3's and tf_keras's
        own, tf_lso's class is made.
      custom_objects: dict of names and classes of your own: optimizers, schedules, loss
        scales. Those of `custom_object_scope` and registered ones are found too.
      package: the package of the optimizer to make; see `inner_config.make`.
      kind: its only family; see there.

    Raises:
      TypeError: if `config` is no dict, or a value is of the wrong type.
      ValueError: if a class or a loss scale is not known, or a key is missing or cannot
        be kept.
    """
    config = inner_config.checked(config)
    stable, _ = _classes()
    cls = _wrapper_class(config, custom_objects)
    if cls is None:
        return inner_config.make(config, custom_objects, package, kind)
    if cls.from_config.__func__ is stable.from_config.__func__:
        return from_config(cls, config["config"], custom_objects, package)
    return cls.from_config(config["config"], custom_objects=custom_objects)


def unbound(cls):
    """Return the class without a family that `cls` was made from, or itself."""
    return vars(cls).get("_unbound", cls)


def _given_class(config, custom_objects):
    """Return the class that the user gave for a config's own name, or None."""
    cls = inner_config.custom_class(config, custom_objects, [])
    if cls is not None:
        return cls
    # The registered class may be one that was bound to a family.
    cls = inner_config.custom_class(config, None, kerases.imported())
    return None if cls is None else unbound(cls)


def _wrapper_class(config, custom_objects):
    """Return the tf_lso class that a config means, None if it is no wrapper."""
    stable, experimental = _classes()
    cls = _given_class(config, custom_objects)
    if cls is None and is_wrapper(config) and _name(config) != _EXPERIMENTAL:
        # Programs passed the class under its one public name.
        cls = _given_class({"class_name": "LossScaleOptimizer"}, custom_objects)
    if cls is not None and issubclass(cls, stable):
        return cls
    by_name = cls is None or kerases.is_of_one(cls)
    if not by_name or not is_wrapper(config):
        return None
    is_old = (
        _name(config) == _EXPERIMENTAL
        or config.get("module") == experimental.__module__
        or IS_EXPERIMENTAL.items() <= config.items()
    )
    return experimental if is_old else stable


def from_config(cls, config, custom_objects=None, package=None):
    """Make a LossScaleOptimizer from the arguments in a config of any layout.

    `cls` is the stable class or a subclass. For a loss scale that the stable class cannot
    express, the result is an experimental optimizer. All else is as for `deserialize`.
    """
    if not isinstance(config, dict):
        raise TypeError(
            "'config' must be a dict as get_config() returns, but got "
            f"{config!r} of type {type(config).__name__}."
        )
    kind = None
    if (
        cls._family_class is not None
    ):  # such a class makes only optimizers of its family
        package, kind = cls._family_class.package, cls._family_class.name
    config = inner_config.plain(config)
    inner = _the_inner(config)
    _, experimental = _classes()
    if "loss_scale" in config:
        loss_scale = _loss_scale(config.pop("loss_scale"), custom_objects)
        if not issubclass(cls, experimental):
            cls, arguments = _expressed(cls, loss_scale)
            config.update(arguments)
    elif issubclass(cls, experimental):
        loss_scale, config = _experimental_arguments(config)
    if isinstance(inner, dict):
        inner = deserialize(inner, custom_objects, package, kind)
    if issubclass(cls, experimental):
        return cls(inner, loss_scale, **config)
    return cls(inner, **config)


def _expressed(cls, loss_scale):
    """Return the class that can have a loss scale, and the stable one's arguments for it."""
    stable, experimental = _classes()
    kinds = (loss_scale_lib.FixedLossScale, loss_scale_lib.DynamicLossScale)
    if type(loss_scale) in kinds and getattr(loss_scale, "multiplier", 2) == 2:
        return cls, loss_scale_lib.arguments_of(loss_scale)
    if unbound(cls) is stable:
        return experimental, {}
    raise ValueError(
        f"'loss_scale' of the config is {loss_scale!r}, which {cls.__name__} cannot have: "
        "it takes a fixed scale, or a dynamic one with the multiplier 2."
    )


def _the_inner(config):
    """Remove the inner optimizer's config from `config`, of either layout."""
    old = "optimizer" in config or "loss_scale" in config
    key = "optimizer" if old else "inner_optimizer"
    has = sorted(map(str, config))
    both = old and "inner_optimizer" in config
    if both or config.get(key) is None:
        raise ValueError(
            f"A LossScaleOptimizer config must have the key {key!r}"
            f"{', and not inner_optimizer beside it' if both else ''}, but this one has "
            f"{has}."
        )
    if old and "loss_scale" not in config:
        raise ValueError(
            "A LossScaleOptimizer config with the key 'optimizer' must have 'loss_scale' "
            f"too, but this one has {has}."
        )
    return config.pop(key)


def _loss_scale(config, custom_objects):
    loss_scale = loss_scale_lib.get(config, custom_objects)
    if not isinstance(loss_scale, loss_scale_lib.LossScale):
        raise ValueError(
            "'loss_scale' of the config must be a LossScale, its config, 'dynamic' or a "
            f"number, but got {config!r}."
        )
    return loss_scale


def _experimental_arguments(config):
    """Return the loss scale of a config of the stable layout, and its other keys."""
    dynamic = config.pop("dynamic", True)
    validation.check_dynamic(dynamic)
    keys = options.names(options.STABLE)
    given = {key: config.pop(key) for key in keys if config.get(key) is not None}
    loss_scale = loss_scale_lib.make(dynamic, given)
    name = {key: config.pop(key) for key in ("name",) if key in config}
    validation.check_keras3_arguments(
        {k: v for k, v in config.items() if k not in keys}
    )
    return loss_scale, name
