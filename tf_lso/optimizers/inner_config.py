"""Make optimizers from their configs, of any generation.

`serialize` of TensorFlow 2.0-2.15, tf_keras or Keras 3 returned the config:
{"class_name": ..., "config": {...}}. Since TensorFlow 2.12 it also has "module" and
"registered_name". The caller says of which package the optimizer must be; only where no
caller does, `_package_of` asks the config.
"""

import inspect

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


def _is_new(config):
    """Whether it was one of the newer optimizers, the default since TensorFlow 2.11."""
    keys, module = config["config"], config.get("module")
    if "is_legacy_optimizer" in keys:
        return not keys["is_legacy_optimizer"]
    if not keys or _KEYS_OF_NEW & keys.keys():
        return True
    return module in ("keras.optimizers", "keras.optimizers.experimental")


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
        elements = [plain(element) for element in value]
        return tuple(elements) if isinstance(value, tuple) else elements
    raw = variables_lib.raw(value)
    if tf.is_tensor(raw) or isinstance(raw, tf.Variable):
        value = np.asarray(raw)
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def checked(config, what="The config of an optimizer"):
    """Return a `plain` copy of a serialized object; raise if it is incomplete."""
    if not isinstance(config, dict):
        raise TypeError(
            f"{what} must be a dict, but got {config!r} of type {type(config).__name__}."
        )
    for key in ("class_name", "config"):
        if key not in config:
            raise ValueError(
                f"{what} must have the keys 'class_name' and 'config', but it has "
                f"{sorted(map(str, config))}, without {key!r}."
            )
    for key, kind in (("class_name", str), ("config", dict)):
        if not isinstance(config[key], kind) and (key, config[key]) != ("config", None):
            raise TypeError(
                f"{key!r} of {what} must be a {kind.__name__}, but got {config[key]!r}."
            )
    config = plain(config)
    return {**config, "config": config["config"] or {}}


# --- The class, and the adapter to its family.


def custom_class(config, custom_objects, packages):
    """Return the class that the user gave for a config, or None.

    It may be in `custom_objects`, registered with a Keras of `packages`, or in a
    `custom_object_scope`.
    """
    names = [config.get("registered_name"), config["class_name"]]
    names = [name for name in names if isinstance(name, str)]
    names += [name.split(">")[-1] for name in names]
    for name in names:
        if inspect.isclass((custom_objects or {}).get(name)):
            return custom_objects[name]
    for name in names:
        for package in packages:
            found = kerases.public(package).saving.get_registered_object(name)
            # Keras 2 registers some classes of its own, under names of all families.
            if inspect.isclass(found) and not kerases.is_of_one(found):
                return found
    return None


def _title(family):
    """Return what messages call a family."""
    if family.name == "legacy":
        return f"{family.package}.optimizers.legacy"
    return "Keras 3" if family.name == "keras3" else family.package


def _classes(family):
    """Return {name in lower case: optimizer class} of a family's Keras."""
    optimizers = kerases.public(family.package).optimizers
    namespace = optimizers.legacy if family.name == "legacy" else optimizers
    return {
        name.lower(): cls
        for name, cls in vars(namespace).items()
        if inspect.isclass(cls)
        and issubclass(cls, family.base)
        and cls is not family.base
        and not name.startswith("LossScaleOptimizer")
    }


def _find(config, custom_objects, package, kind):
    """Return the class that the config of an optimizer names, and its family's adapter."""
    name = config["class_name"]
    packages = [package] if package else kerases.imported()
    cls = custom_class(config, custom_objects, packages)
    if cls is not None:
        for one in kerases.imported():
            for family in families.families_of_package(one):
                if issubclass(cls, family.base):
                    return cls, family
        raise TypeError(
            f"{name!r} of `custom_objects` must be the class of an "
            f"optimizer of Keras 3 or Keras 2, but got {cls!r}."
        )
    known = families.families_of_package(package or _package_of(config))
    candidates = [f for f in known if kind in (None, f.name)]  # legacy first, if there
    if _is_new(config):
        candidates.reverse()
    # Some classes of TensorFlow 2.9 had that prefix.
    class_name = name.split(">")[-1].lower().removeprefix("experimental")
    for family in candidates:
        if class_name in _classes(family):
            return _classes(family)[class_name], family
    names = sorted(cls.__name__ for cls in _classes(candidates[0]).values())
    raise ValueError(
        f"Unknown optimizer {name!r}. {_title(candidates[0])} has {names}; give a class "
        f"of your own as custom_objects={{{name!r}: ...}}."
    )


# --- Its arguments.

_ANY = "any value"

# Keys that an optimizer class may lack, and the values that mean what the class does
# anyway. These values are dropped; all others are refused.
_NEUTRAL = {key: (value,) for key, value in validation.KERAS3_DEFAULTS.items()} | {
    "jit_compile": _ANY,  # how steps are compiled, not what they compute
    "is_legacy_optimizer": _ANY,  # which of two classes of one name it was
    "decay": (0,),
    "adaptive_epsilon": (False,),
    "weight_decay": (None, 0),
    "ema_momentum": _ANY,  # these two matter only if use_ema is True
    "ema_overwrite_frequency": _ANY,
}

# OptimizerV2's Nadam wrote the constant of its momentum schedule as `decay`, and ignored
# what it read. Later Nadams have another constant.
_NADAM_DECAY = {"decay", "schedule_decay"}, (0, 0.004)

# Arguments that legacy classes take by name, although no signature has them.
_LEGACY_KEYWORDS = ("lr", "decay", "clipnorm", "clipvalue", "global_clipnorm")

_FUNCTIONS = ("function", "__lambda__")  # class names that Keras 3 gives callables

# In optimizers and schedules of Keras 2, None meant the default of these arguments.
_DEFAULT_IF_NONE = ("epsilon", "name")


def is_neutral(key, value):
    """Whether an argument that a class lacks means what the class does anyway."""
    values = _NEUTRAL.get(key, ())
    return values is _ANY or value in values


def _accepted(cls, keywords):
    """Return {argument: default} of the arguments that a class takes."""
    found = dict.fromkeys(keywords)
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
        for one in parameters:
            if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
                found.setdefault(one.name, one.default)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    found.pop("self", None)
    return found


def _arguments(cls, family, config, custom_objects):
    """Return the arguments for `cls.from_config`; raise if `cls` cannot do what one says."""
    keywords = _LEGACY_KEYWORDS if family.name == "legacy" else ()
    takes = _accepted(cls, keywords)
    config = _renamed(cls, config)
    rate = config.get("learning_rate")
    if isinstance(rate, dict) and rate.get("class_name") not in _FUNCTIONS:
        config["learning_rate"] = _schedule(rate, family, custom_objects)
    _drop_nadam_decay(cls, takes, config)
    if config.get("decay") and "decay" not in takes:
        config["learning_rate"] = _decayed(cls, family, takes, config)
    arguments = {}
    for key, value in config.items():
        if key in takes:
            if value is None and key in _DEFAULT_IF_NONE:
                continue
            arguments[key] = _as_default(cls, key, value, takes[key])
        elif not is_neutral(key, value):
            if kerases.is_of_one(cls):
                raise ValueError(
                    f"{_title(family)}'s {cls.__name__} does not have {key!r}, so the "
                    f"config's {key!r}: {value!r} cannot be kept. Take it out of the "
                    "config, or give a class of your own in `custom_objects`."
                )
            arguments[key] = value  # the user's class may take it from its **kwargs
    return arguments


def _as_default(cls, key, value, default):
    """Return the value in the type of the argument's default, or raise TypeError."""
    if not isinstance(default, float) or callable(value) or value is None:
        return value
    if key == "learning_rate" and isinstance(value, dict):
        return value
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(
            f"The config of {cls.__name__} has {key!r}: {value!r}, which is no number."
        )
    return float(value)  # Keras 3 refuses `momentum=0` and `learning_rate=1`


def _renamed(cls, config):
    config = dict(config)
    for old, new in table.ALIASES.items():
        if old in config:
            value = config.pop(old)
            if config.setdefault(new, value) != value:
                raise ValueError(
                    f"The config of {cls.__name__} has {old!r}: {value!r}, which means "
                    f"{new!r}, but also {new!r}: {config[new]!r}."
                )
    return config


def _drop_nadam_decay(cls, takes, config):
    if "nadam" not in {base.__name__.lower() for base in cls.__mro__}:
        return
    keys, values = _NADAM_DECAY
    for key in config.keys() & keys - takes.keys():
        if config[key] not in values:
            raise ValueError(
                f"The config of {cls.__name__} has {key!r}: {config[key]!r}, its momentum "
                "schedule, which is fixed in today's. Take it out of the config."
            )
        del config[key]


# --- Learning rates.


def _decayed(cls, family, takes, config):
    """Return the schedule that computes what `decay` did."""
    decay = config.pop("decay")
    rate = config.get("learning_rate", takes.get("learning_rate"))
    if not isinstance(rate, (int, float)) or not isinstance(decay, (int, float)):
        raise ValueError(
            f"The config of {cls.__name__} has 'decay': {decay!r} beside 'learning_rate': "
            f"{rate!r}. {_title(family)} has a schedule that does the same only if both "
            "are numbers. Write a LearningRateSchedule that combines them."
        )
    schedules = kerases.public(family.package).optimizers.schedules
    return schedules.InverseTimeDecay(float(rate), 1, float(decay))


def _schedule(config, family, custom_objects):
    """Return the learning rate schedule that a config describes."""
    config = checked(config, "The config of a 'learning_rate'")
    schedules = kerases.public(family.package).optimizers.schedules
    name = config["class_name"]
    cls = custom_class(config, custom_objects, [family.package])
    cls = cls or getattr(schedules, name.split(">")[-1], None)
    if cls is None:
        raise ValueError(
            f"Unknown learning rate schedule {name!r}. Give a class of your own as "
            f"custom_objects={{{name!r}: ...}}."
        )
    if not issubclass(cls, schedules.LearningRateSchedule):
        raise TypeError(
            f"The learning rate schedule {name!r} must be a LearningRateSchedule of "
            f"{_title(family)}, but got {cls!r}."
        )
    arguments = {
        key: value
        for key, value in config["config"].items()
        if value is not None or key not in _DEFAULT_IF_NONE
    }
    return _from_config(cls, arguments, family, custom_objects)


def _from_config(cls, arguments, family, custom_objects):
    with kerases.public(family.package).saving.custom_object_scope(
        custom_objects or {}
    ):
        return cls.from_config(arguments)


def make(config, custom_objects=None, package=None, kind=None):
    """Return the optimizer that a `checked` config describes, new.

    A class of the user's own decides the family by its base class. Of Keras's own, that of
    `package` is made, "keras" or "tf_keras"; if it is None, the config decides. `kind` is
    the name of the only family that it may be of, or None. It raises as `deserialize`.
    """
    cls, family = _find(config, custom_objects, package, kind)
    arguments = _arguments(cls, family, config["config"], custom_objects)
    return _from_config(cls, arguments, family, custom_objects)
