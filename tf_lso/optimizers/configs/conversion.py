"""Make optimizers from configs of other generations: tables of what differs."""

import inspect

from tf_lso import kerases
from tf_lso.optimizers import table
from tf_lso.optimizers.configs import inner as inner_configs

ANY = "any value"

# Keys that an optimizer class may lack, and the values that mean what the class does
# anyway. These values are dropped; all others are refused.
NEUTRAL = {
    "jit_compile": ANY,  # how steps are compiled, not what they compute
    "is_legacy_optimizer": ANY,  # which of two classes of one name it was
    "decay": (0,),
    "adaptive_epsilon": (False,),
    "weight_decay": (None, 0),
    "clipnorm": (None,),
    "clipvalue": (None,),
    "global_clipnorm": (None,),
    "use_ema": (False,),
    "ema_momentum": ANY,  # these two matter only if use_ema is True
    "ema_overwrite_frequency": ANY,
    "loss_scale_factor": (None,),
    "gradient_accumulation_steps": (None,),
}

# OptimizerV2's Nadam wrote the constant of its momentum schedule as `decay`, and ignored
# what it read. Later Nadams have another constant.
NADAM_DECAY = {"decay", "schedule_decay"}, (0, 0.004)

FUNCTIONS = ("function", "__lambda__")  # class names that Keras 3 gives callables

# In optimizers and schedules of Keras 2, None meant the default of these arguments.
DEFAULT_IF_NONE = ("epsilon", "name")


def accepted(cls, keywords=()):
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


def converted(cls, family, config, custom_objects):
    """Return the arguments for `cls.from_config`, of an optimizer of a `Family`.

    Raises:
      ValueError: if `cls` cannot do what a key of `config`, of any generation, says.
    """
    takes = accepted(cls, family.keywords)
    config = _renamed(cls, config)
    rate = config.get("learning_rate")
    if isinstance(rate, dict) and rate.get("class_name") not in FUNCTIONS:
        config["learning_rate"] = _schedule(rate, family, custom_objects)
    _drop_nadam_decay(cls, takes, config)
    if config.get("decay") and "decay" not in takes:
        config["learning_rate"] = _decayed(cls, family, takes, config)
    arguments = {}
    for key, value in config.items():
        if key in takes:
            if value is None and key in DEFAULT_IF_NONE:
                continue
            arguments[key] = _as_default(cls, key, value, takes[key])
        elif not is_neutral(key, value):
            if kerases.is_of_one(cls):
                raise ValueError(
                    f"{family.title}'s {cls.__name__} does not have {key!r}, so the "
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
    keys, values = NADAM_DECAY
    for key in config.keys() & keys - takes.keys():
        if config[key] not in values:
            raise ValueError(
                f"The config of {cls.__name__} has {key!r}: {config[key]!r}, its momentum "
                "schedule, which is fixed in today's. Take it out of the config."
            )
        del config[key]


def is_neutral(key, value):
    """Whether an argument that a class lacks means what the class does anyway."""
    values = NEUTRAL.get(key, ())
    return values is ANY or value in values


def _decayed(cls, family, takes, config):
    """Return the schedule that computes what `decay` did."""
    decay = config.pop("decay")
    rate = config.get("learning_rate", takes.get("learning_rate"))
    if not isinstance(rate, (int, float)) or not isinstance(decay, (int, float)):
        raise ValueError(
            f"The config of {cls.__name__} has 'decay': {decay!r} beside 'learning_rate': "
            f"{rate!r}. {family.title} has a schedule that does the same only if both are "
            "numbers. Write a LearningRateSchedule that combines them."
        )
    schedules = family.keras.optimizers.schedules
    return schedules.InverseTimeDecay(float(rate), 1, float(decay))


def _schedule(config, family, custom_objects):
    """Return the learning rate schedule that a config describes."""
    config = inner_configs.checked(config, "The config of a 'learning_rate'")
    schedules = family.keras.optimizers.schedules
    name = config["class_name"]
    cls = inner_configs.custom_class(
        config, custom_objects, [kerases.package_of(family.base)]
    )
    if cls is None:
        cls = getattr(schedules, name.split(">")[-1], None)
    if cls is None:
        raise ValueError(
            f"Unknown learning rate schedule {name!r}. Give a class of your own as "
            f"custom_objects={{{name!r}: ...}}."
        )
    if not issubclass(cls, schedules.LearningRateSchedule):
        raise TypeError(
            f"The learning rate schedule {name!r} must be a LearningRateSchedule of "
            f"{family.title}, but got {cls!r}."
        )
    arguments = {
        key: value
        for key, value in config["config"].items()
        if value is not None or key not in DEFAULT_IF_NONE
    }
    return _from_config(cls, arguments, family, custom_objects)


def make(config, custom_objects=None, package=None, kind=None):
    """Return the optimizer that a config describes; all is as for `inner.find`.

    Raises:
      TypeError: if a value has the wrong type.
      ValueError: if the class is not known, or a key does not fit it.
    """
    cls, family = inner_configs.find(config, custom_objects, package, kind)
    arguments = converted(cls, family, config["config"], custom_objects)
    return _from_config(cls, arguments, family, custom_objects)


def _from_config(cls, config, family, custom_objects):
    with family.keras.saving.custom_object_scope(custom_objects or {}):
        return cls.from_config(config)
