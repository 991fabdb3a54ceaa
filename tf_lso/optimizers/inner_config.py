"""Make optimizers from their configs, of any generation.

`serialize` of TensorFlow 2.0-2.15, tf_keras or Keras 3 returned the config:
{"class_name": ..., "config": {...}}. Since TensorFlow 2.12 it also has "module" and
"registered_name". The caller says of which package the optimizer must be; only where no
caller does, `_package_of` asks the config.
"""

import inspect
import itertools

import numpy as np
import tensorflow as tf

from tf_lso import kerases
from tf_lso.optimizers import families, table, validation
from tf_lso.optimizers import variables as variables_lib

# --- Who wrote a config.

KEYS_OF_KERAS3 = {"loss_scale_factor", "gradient_accumulation_steps"}
_KEYS_OF_KERAS2 = {"decay", "jit_compile", "is_legacy_optimizer"}
_KEYS_OF_NEW = {"jit_compile", "use_ema", "weight_decay", *KEYS_OF_KERAS3}
_OF_KERAS2 = ("tf_keras", "keras.optimizers.legacy", "keras.optimizers.experimental")


def written_by_keras3(config):
    """Whether Keras 3 wrote the config of an optimizer."""
    keys = config["config"].keys()
    return bool(KEYS_OF_KERAS3 & keys) or (
        "registered_name" in config
        and not _KEYS_OF_KERAS2 & keys
        and not str(config.get("module")).startswith(_OF_KERAS2)
    )


def _is_legacy(keys):
    """Whether a config with these keys was a legacy optimizer's, by Keras 2's own rule."""
    # TensorFlow 2.9 and Keras 3 do not write the key.
    default = bool(keys) and not _KEYS_OF_NEW & keys.keys()
    return keys.get("is_legacy_optimizer", default)


def _package_of(config):
    """Return the package whose optimizer to make if only the config decides."""
    if written_by_keras3(config) and kerases.has_keras3():
        return "keras"
    # TensorFlow 2.12-2.15 and tf_keras wrote the same configs. A program that has tf_keras
    # beside Keras 3 gets optimizers of tf_keras. Others, and older configs, get what
    # `tf.keras` is now.
    if "registered_name" in config and kerases.imported_keras2() == ["tf_keras"]:
        return "tf_keras"
    return kerases.of_tensorflow()


# --- Reading.


def plain(value):
    """Return a copy of a config with Python numbers instead of arrays and tensors."""
    if isinstance(value, dict):
        if value.get("class_name") in ("__numpy__", "__tensor__"):  # TensorFlow 2.12+
            return plain(value["config"]["value"])
        return {key: plain(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, tuple) else list)(map(plain, value))
    raw = variables_lib.raw(value)
    if tf.is_tensor(raw):
        value = np.asarray(raw)
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def plain_dict(config, what):
    """Return a `plain` copy of a dict; raise if it is none."""
    if not isinstance(config, dict):
        raise TypeError(
            f"{what} must be a dict, but got {config!r} of type {type(config).__name__}."
        )
    return plain(config)


def checked(config, what="The config of an optimizer"):
    """Return a `plain` copy of a serialized object; raise if it is incomplete."""
    config = plain_dict(config, what)
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


# --- The class, and the adapter to its family.


def short_name(config):
    """Return the class name of a config, without a package and in lower case."""
    return config["class_name"].split(">")[-1].lower()


def custom_class(config, custom_objects, packages, *names):
    """Return the class that the user gave for a config, or None.

    It may be in `custom_objects`, registered with a Keras of `packages`, or in a
    `custom_object_scope`, under the config's own names or one of `names`.
    """
    own = [config.get("registered_name") or "", config["class_name"]]
    names = [*own, *(name.split(">")[-1] for name in own), *names]
    found = [(custom_objects or {}).get(name) for name in names]
    for name, package in itertools.product(names, packages):
        registered = kerases.public(package).saving.get_registered_object(name)
        # Keras 2 registers some classes of its own, under names of all families.
        if inspect.isclass(registered) and not kerases.is_of_one(registered):
            found.append(registered)
    return next(filter(inspect.isclass, found), None)


def _classes(family):
    """Return {name in lower case: optimizer class} of a family's Keras."""
    optimizers = kerases.public(family.package).optimizers
    namespace = optimizers.legacy if family.name == "legacy" else optimizers
    return {
        name.lower(): cls
        for name, cls in vars(namespace).items()
        if inspect.isclass(cls)
        and issubclass(cls, family.base)
        and name not in ("Optimizer", "LossScaleOptimizer")
    }


def _find(config, custom_objects, package, family):
    """Return the class that the config of an optimizer names, and its family's adapter."""
    name, imported = config["class_name"], kerases.imported()
    cls = custom_class(config, custom_objects, [package] if package else imported)
    if cls is not None:
        for one in itertools.chain(*map(families.families_of_package, imported)):
            if issubclass(cls, one.base):
                return cls, one
        raise TypeError(
            f"{name!r} of `custom_objects` must be the class of an optimizer of Keras 3 or "
            f"Keras 2, but got {cls!r}."
        )
    known = families.families_of_package(package or _package_of(config))
    known = [family] if family else list(known)  # legacy first, if there
    if not _is_legacy(config["config"]):
        known.reverse()
    # Some classes of TensorFlow 2.9 had that prefix.
    class_name = short_name(config).removeprefix("experimental")
    for one in known:
        if class_name in _classes(one):
            return _classes(one)[class_name], one
    names = sorted(cls.__name__ for cls in _classes(known[0]).values())
    raise ValueError(
        f"Unknown optimizer {name!r}. {known[0].package} has {names}; give a class of your "
        f"own as custom_objects={{{name!r}: ...}}."
    )


# --- Its arguments.

# Keys that an optimizer class may lack if the value is None, False or 0, which means what
# the class does anyway.
_OFF = {*validation.KERAS3_DEFAULTS, "decay", "adaptive_epsilon"}

# Keys that it may lack whatever the value. They say how steps are compiled, which of two
# classes of one name it was, and what matters only if `use_ema` is True.
_ANY = {"jit_compile", "is_legacy_optimizer", "ema_momentum", "ema_overwrite_frequency"}

# Arguments that legacy classes take by name, although no signature has them.
_LEGACY_KEYWORDS = ("decay", "clipnorm", "clipvalue", "global_clipnorm")


def is_neutral(key, value):
    """Whether an argument that a class lacks means what the class does anyway."""
    return key in _ANY or (key in _OFF and not value)


def _accepted(cls, family):
    """Return {argument: default} of the arguments that a class takes."""
    found = dict.fromkeys(_LEGACY_KEYWORDS if family.name == "legacy" else ())
    for base in cls.__mro__:
        if "__init__" in vars(base):
            parameters = inspect.signature(base.__init__).parameters.values()
            found = {one.name: one.default for one in parameters} | found
            if not any(one.kind is one.VAR_KEYWORD for one in parameters):
                break
    return found


def _renamed(cls, config):
    config = dict(config)
    for old in table.ALIASES.keys() & config.keys():
        new, value = table.ALIASES[old], config.pop(old)
        if config.setdefault(new, value) != value:
            raise ValueError(
                f"The config of {cls.__name__} has {old!r}: {value!r} beside {new!r}: "
                f"{config[new]!r}, which means the same. Take one out."
            )
    return config


def _arguments(cls, family, config):
    """Return the arguments for `cls.from_config`; raise if `cls` cannot do what one says."""
    takes, config = _accepted(cls, family), _renamed(cls, config)
    if isinstance(config.get("learning_rate"), dict):
        config["learning_rate"] = _schedule(config["learning_rate"], family)
    _convert_decay(cls, family, takes, config)
    arguments = {}
    for key, value in config.items():
        if value is None and key in ("epsilon", "name"):
            continue  # the default, in Keras 2
        if key not in takes and is_neutral(key, value):
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
    if not isinstance(default, float) or callable(value) or isinstance(value, dict):
        return value
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(
            f"The config of {cls.__name__} has {key!r}: {value!r}, which is no number."
        )
    return float(value)  # Keras 3 refuses `momentum=0` and `learning_rate=1`


# --- Learning rates.


def _convert_decay(cls, family, takes, config):
    """Make a schedule that computes what `decay` did, where the class does not take it."""
    # OptimizerV2's Nadam wrote the constant of its momentum schedule as `decay`, and
    # ignored what it read. Later Nadams have another constant.
    is_nadam = "Nadam" in {base.__name__ for base in cls.__mro__}
    if is_nadam and config.get("decay") == 0.004:
        del config["decay"]
    if is_nadam or "decay" in takes or not config.get("decay"):
        return
    rate, decay = (
        config.get("learning_rate", takes.get("learning_rate")),
        config.pop("decay"),
    )
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
    config = checked(config, "The config of a 'learning_rate'")
    schedules = kerases.public(family.package).optimizers.schedules
    name, arguments = config["class_name"], config["config"]
    cls = custom_class(config, None, [family.package])
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


def make(config, custom_objects=None, package=None, family=None):
    """Return the optimizer that a `checked` config describes, new.

    A class of the user's own decides the family by its base class. Of Keras's own, that of
    `package` is made, "keras" or "tf_keras"; if it is None, the config decides. `family` is
    the adapter of the only family that it may be of, or None. It raises as `deserialize`.
    """
    cls, family = _find(config, custom_objects, package, family)
    saving = kerases.public(family.package).saving
    with saving.custom_object_scope(custom_objects or {}):
        return cls.from_config(_arguments(cls, family, config["config"]))
