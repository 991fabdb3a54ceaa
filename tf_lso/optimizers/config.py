"""Make optimizers, wrapped or not, from configs of any generation.

A config is {"class_name": ..., "config": {...}}, since TensorFlow 2.12 also with "module"
and "registered_name". The caller says of which package the optimizer must be; only where
no caller does, `_package_of` asks the config. What a LossScaleOptimizer has in "config":

| written by | keys |
|---|---|
| 2.4-2.15, tf_keras, tf_lso | inner_optimizer, dynamic, initial_scale, dynamic_growth_steps |
| Keras 3 | the same without dynamic, with name, and arguments of its base class |
| 2.0-2.3, tf_lso's experimental | optimizer, loss_scale |
"""

import inspect
import re

import numpy as np
import tensorflow as tf

from tf_lso import kerases
from tf_lso import optimizer_table as table
from tf_lso import variables as variables_lib
from tf_lso.optimizers import families, validation
from tf_lso.scaling import loss_scale as loss_scale_lib
from tf_lso.scaling import options

# The names under which LossScaleOptimizers were saved. V1 was the experimental one of
# 2.4-2.8, V3 wraps the newer optimizers, since 2.9; "experimental" is tf_lso's own.
_WRAPPER = re.compile("(experimental|base)?lossscaleoptimizer(v1|v3)?")

# tf_lso writes this beside the class name in .h5 files and SavedModels of tf_keras.
IS_EXPERIMENTAL = {"tf_lso": "experimental"}

KEYS_OF_KERAS3 = {"loss_scale_factor", "gradient_accumulation_steps"}
_KEYS_OF_KERAS2 = {"decay", "jit_compile", "is_legacy_optimizer"}
_KEYS_OF_NEW = {"jit_compile", "use_ema", "weight_decay", *KEYS_OF_KERAS3}

# Keys that an optimizer class may lack if the value is None, False or 0, which means what
# the class does anyway.
_OFF = {*validation.KERAS3_DEFAULTS, "decay", "adaptive_epsilon"}

# Keys that it may lack whatever the value. They say how steps are compiled, which of two
# classes of one name it was, and what matters only if `use_ema` is True.
_ANY = {"jit_compile", "is_legacy_optimizer", "ema_momentum", "ema_overwrite_frequency"}

# Arguments that legacy classes take by name, although no signature has them.
_LEGACY_KEYWORDS = ("decay", "clipnorm", "clipvalue", "global_clipnorm")


def plain(value):
    """Return a copy of a config with Python numbers instead of arrays and tensors."""
    if isinstance(value, dict):
        if value.get("class_name") in ("__numpy__", "__tensor__"):  # TensorFlow 2.12+
            return plain(value["config"]["value"])
        return {key: plain(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, tuple) else list)(map(plain, value))
    if tf.is_tensor(variables_lib.raw(value)):
        value = np.asarray(variables_lib.raw(value))
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def _plain_dict(config, what):
    """Return a `plain` copy of a dict; raise if it is none."""
    if not isinstance(config, dict):
        raise TypeError(
            f"{what} must be a dict, but got {config!r} of type {type(config).__name__}."
        )
    return plain(config)


def _checked(config, what="The config of an optimizer"):
    """Return a `plain` copy of a config; raise if it is incomplete."""
    config = _plain_dict(config, what)
    if not {"class_name", "config"} <= config.keys():
        raise ValueError(
            f"{what} must have the keys 'class_name' and 'config', but it has "
            f"{sorted(map(str, config))}."
        )
    name, arguments = config["class_name"], config["config"] or {}
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise TypeError(
            f"{what} must have a str as 'class_name' and a dict as 'config', but got "
            f"{name!r} and {arguments!r}."
        )
    return {**config, "config": arguments}


def _short_name(config):
    """Return the class name without a package and in lower case."""
    return config["class_name"].split(">")[-1].lower()


def is_wrapper(config):
    """Whether a serialized optimizer is a LossScaleOptimizer, by its name."""
    return bool(_WRAPPER.fullmatch(_short_name(config)))


def written_by_keras3(config):
    """Whether Keras 3 wrote the config of an optimizer."""
    keys = config["config"].keys()
    by_its_absence = "registered_name" in config and not _KEYS_OF_KERAS2 & keys
    return by_its_absence or bool(KEYS_OF_KERAS3 & keys)


def _package_of(config):
    """Return the package whose optimizer to make if only the config decides."""
    if written_by_keras3(config) and kerases.has_keras3():
        return "keras"
    # TensorFlow 2.12-2.15 and tf_keras wrote the same configs: they are of tf_keras where
    # a program has it beside Keras 3. Others, and older configs, get today's `tf.keras`.
    if "registered_name" in config and kerases.imported_keras2() == ["tf_keras"]:
        return "tf_keras"
    return kerases.of_tensorflow()


# --- Wrapped optimizers.


def _classes():
    """Return the stable and the experimental class."""
    # Late: both are above this module, and read configs by it.
    from tf_lso.optimizers import experimental, loss_scale_optimizer

    return loss_scale_optimizer.LossScaleOptimizer, experimental.LossScaleOptimizer


def unbound(cls):
    """Return the class without a family that `cls` was made from, or itself."""
    return vars(cls).get("_unbound", cls)


def deserialize(config, custom_objects=None, package=None, family=None):
    """Return the optimizer or LossScaleOptimizer of a config of any generation, new.

    A LossScaleOptimizer of any version, also Keras 3's or tf_keras's own, becomes tf_lso's.
    `custom_objects` has the user's optimizers, schedules and loss scales by name; those of
    a `custom_object_scope` and registered ones are found too. Of Keras's own optimizers,
    that of `package` is made, "keras" or "tf_keras"; if it is None, the config decides.
    `family` is the adapter of the only family that it may be of, or None.

    TypeError if a value is of the wrong type; ValueError if a class or a loss scale is
    not known, or a key is missing or cannot be kept.
    """
    config = _checked(config)
    stable, experimental = _classes()
    is_old = _short_name(config).startswith("experimental")
    # Programs passed the class under its one public name.
    names = ["LossScaleOptimizer"] if is_wrapper(config) and not is_old else []
    packages = [package] if package else kerases.imported()
    cls = _custom_class(config, custom_objects, packages, *names)
    if is_wrapper(config) and (cls is None or kerases.is_of_one(cls)):
        is_old |= config.get("module") == experimental.__module__
        is_old |= IS_EXPERIMENTAL.items() <= config.items()
        cls = experimental if is_old else stable
    if cls is None:
        cls, family = _of_keras(config, package, family)
    elif issubclass(cls, stable):
        cls = unbound(cls)  # a registered one may be bound to a family
        if cls.from_config.__func__ is stable.from_config.__func__:
            return from_config(cls, config["config"], custom_objects, package)
        return cls.from_config(config["config"], custom_objects=custom_objects)
    else:
        family = _family_of(cls, config["class_name"])
    saving = kerases.public(family.package).saving
    with saving.custom_object_scope(custom_objects or {}):
        return cls.from_config(_arguments(cls, family, config["config"]))


def from_config(cls, config, custom_objects=None, package=None):
    """Make a LossScaleOptimizer from the arguments in a config of any layout.

    `cls` is the stable class or a subclass. For a loss scale that the stable class cannot
    express, the result is an experimental optimizer. All else is as for `deserialize`.
    """
    stable, experimental = _classes()
    config = _plain_dict(config, "'config'")
    keys = ("inner_optimizer", "optimizer", "loss_scale")
    layout = [key for key in keys if config.get(key) is not None]
    if layout not in (["inner_optimizer"], ["optimizer", "loss_scale"]):
        raise ValueError(
            "The config of a LossScaleOptimizer must have either 'inner_optimizer' or "
            f"both 'optimizer' and 'loss_scale', but got {config!r}."
        )
    inner = config.pop(layout[0])
    if isinstance(inner, dict):
        family = cls._family_class  # such a class makes only optimizers of its family
        package = family.package if family else package
        inner = deserialize(inner, custom_objects, package, family)
    if "loss_scale" in config:
        loss_scale = loss_scale_lib.get(config.pop("loss_scale"), custom_objects)
    elif issubclass(cls, experimental):
        loss_scale = _pop_loss_scale(config)
    else:
        return cls(inner, **config)
    if issubclass(cls, experimental):
        return cls(inner, loss_scale, **config)
    is_usual = type(loss_scale) in loss_scale_lib.CLASSES.values()
    if is_usual and getattr(loss_scale, "multiplier", 2) == 2:
        return cls(inner, **loss_scale_lib.arguments_of(loss_scale), **config)
    if unbound(cls) is stable:
        return experimental(inner, loss_scale, **config)
    raise ValueError(
        f"'loss_scale' of the config is {loss_scale!r}, which {cls.__name__} cannot have: "
        "it takes a fixed scale, or a dynamic one with the multiplier 2."
    )


def _pop_loss_scale(config):
    """Remove the arguments of the stable class, and return the loss scale they mean."""
    dynamic = config.pop("dynamic", True)
    validation.check_dynamic(dynamic)
    names = config.keys() & set(options.names(options.STABLE))
    loss_scale = loss_scale_lib.make(dynamic, {n: config.pop(n) for n in names})
    others = config.keys() - {"name"}
    validation.check_keras3_arguments({key: config.pop(key) for key in others})
    return loss_scale


# --- The class of a config, and the adapter to its family.


def _custom_class(config, custom_objects, packages, *names):
    """Return the class that the user gave for a config, or None.

    It may be in `custom_objects`, registered with a Keras of `packages`, or in a
    `custom_object_scope`, under the config's own names or one of `names`.
    """
    own = [config.get("registered_name") or "", config["class_name"]]
    names = [*own, *(name.split(">")[-1] for name in own), *names]
    found = [(custom_objects or {}).get(name) for name in names]
    for name in names:
        for package in packages:
            registered = kerases.public(package).saving.get_registered_object(name)
            # Keras 2 registers some classes of its own, under names of all families.
            if inspect.isclass(registered) and not kerases.is_of_one(registered):
                found.append(registered)
    return next(filter(inspect.isclass, found), None)


def _family_of(cls, name):
    """Return the adapter to the family of the user's class."""
    for package in kerases.imported():
        for family in families.families_of_package(package):
            if issubclass(cls, family.base):
                return family
    raise TypeError(
        f"{name!r} of `custom_objects` must be the class of an optimizer of Keras 3 or "
        f"Keras 2, but got {cls!r}."
    )


def _of_keras(config, package, family):
    """Return the class of Keras's own that a config names, and its family's adapter."""
    known = families.families_of_package(package or _package_of(config))
    known = (family,) if family else known  # legacy first, if there
    keys = config["config"]
    # Keras 2's own rule. TensorFlow 2.9 and Keras 3 do not write the key.
    default = bool(keys) and not _KEYS_OF_NEW & keys.keys()
    is_legacy = keys.get("is_legacy_optimizer", default)
    # Some classes of TensorFlow 2.9 had that prefix.
    name = _short_name(config).removeprefix("experimental")
    for one in known if is_legacy else known[::-1]:
        optimizers = kerases.public(one.package).optimizers
        # `install(like="2.4")` has the legacy classes in the first.
        spaces = [
            optimizers,
            *(vars(optimizers).get(n) for n in ("legacy", "experimental")),
        ]
        members = [v for space in spaces if space for v in vars(space).values()]
        members = filter(inspect.isclass, members)
        classes = [c for c in members if issubclass(c, one.base) and c is not one.base]
        for cls in classes:
            if cls.__name__.lower() == name:
                return cls, one
    names = sorted(cls.__name__ for cls in classes)
    raise ValueError(
        f"Unknown optimizer {config['class_name']!r}. {one.package} has {names}; give a "
        "class of your own in `custom_objects`."
    )


# --- The arguments of an optimizer.


def is_neutral(key, value):
    """Whether an argument that a class lacks means what the class does anyway."""
    return key in _ANY or (key in _OFF and not value)


def _arguments(cls, family, config):
    """Return the arguments for `cls.from_config`; raise if `cls` cannot do what one says."""
    takes = dict.fromkeys(_LEGACY_KEYWORDS if family.name == "legacy" else ())
    for base in cls.__mro__:
        parameters = inspect.signature(base.__init__).parameters.values()
        for one in parameters:
            takes.setdefault(one.name, one.default)
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            break  # nothing gets to the classes below
    given = {}
    for key, value in config.items():
        if given.setdefault(table.ALIASES.get(key, key), value) != value:
            raise ValueError(
                f"The config of {cls.__name__} must not have two values of {key!r}, under "
                f"either name, but got {config!r}."
            )
    if isinstance(given.get("learning_rate"), dict):
        given["learning_rate"] = _schedule(given["learning_rate"], family)
    _convert_decay(cls, family, takes, given)
    arguments = {}
    for key, value in given.items():
        is_default = value is None and key in ("epsilon", "name")  # in Keras 2
        if is_default or (key not in takes and is_neutral(key, value)):
            continue
        if key not in takes and kerases.is_of_one(cls):
            raise ValueError(
                f"{cls.__name__} of {family.package} does not have {key!r}, so the "
                f"config's {key!r}: {value!r} cannot be kept. Take it out of the config, "
                "or give a class of your own in `custom_objects`."
            )
        # Else the user's class may take it from its **kwargs.
        arguments[key] = _as_default(cls, key, value, takes.get(key))
    return arguments


def _as_default(cls, key, value, default):
    """Return the value in the type of the argument's default, or raise TypeError."""
    is_of_a_callable = callable(value) or isinstance(value, dict)
    if not isinstance(default, float) or value is None or is_of_a_callable:
        return value
    if type(value) not in (int, float):
        raise TypeError(
            f"The config of {cls.__name__} has {key!r}: {value!r}, which is no number."
        )
    return float(value)  # Keras 3 refuses `momentum=0` and `learning_rate=1`


def _convert_decay(cls, family, takes, config):
    """Make a schedule that computes what `decay` did, where the class does not take it."""
    # OptimizerV2's Nadam wrote the constant of its momentum schedule as `decay`, and
    # ignored what it read. Later Nadams have another constant.
    is_nadam = "Nadam" in {base.__name__ for base in cls.__mro__}
    if is_nadam and config.get("decay") == 0.004:
        del config["decay"]
    if is_nadam or "decay" in takes or not config.get("decay"):
        return
    decay = config.pop("decay")
    rate = config.get("learning_rate", takes.get("learning_rate"))
    if not isinstance(rate, (int, float)):
        raise ValueError(
            f"The config of {cls.__name__} has 'decay': {decay!r} beside 'learning_rate': "
            f"{rate!r}, and no schedule of {family.package} does both. Write a "
            "LearningRateSchedule that combines them."
        )
    schedules = kerases.public(family.package).optimizers.schedules
    config["learning_rate"] = schedules.InverseTimeDecay(float(rate), 1, float(decay))


def _schedule(config, family):
    """Return the learning rate schedule that a config describes."""
    if config.get("class_name") in ("function", "__lambda__"):
        return config  # which Keras 3 made of a callable, and reads itself
    config = _checked(config, "The config of a 'learning_rate'")
    schedules = kerases.public(family.package).optimizers.schedules
    name, arguments = config["class_name"], config["config"]
    cls = _custom_class(config, None, [family.package])
    cls = cls or getattr(schedules, name.split(">")[-1], None)
    if cls is None or not issubclass(cls, schedules.LearningRateSchedule):
        raise (ValueError if cls is None else TypeError)(
            f"{name!r} of the 'learning_rate' must be a LearningRateSchedule of "
            f"{family.package}, but got {cls!r}. Give a class of your own as "
            f"custom_objects={{{name!r}: ...}}."
        )
    if arguments.get("name", "") is None:  # the default, in Keras 2
        del arguments["name"]
    return cls.from_config(arguments)
