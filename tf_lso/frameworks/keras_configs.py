"""Create optimizers from configs of any version of Keras.

A config is {"class_name": ..., "config": {...}}. Since TensorFlow 2.12 a config also has the
keys "module" and "registered_name".
"""

import inspect

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import variables as variables_lib

_KEYS_OF_KERAS3 = {"loss_scale_factor", "gradient_accumulation_steps"}
_KEYS_OF_KERAS2 = {"decay", "jit_compile", "is_legacy_optimizer"}
_KEYS_OF_NEW = {"jit_compile", "use_ema", "weight_decay", *_KEYS_OF_KERAS3}

# These keys are ignored if the class has no such argument and the value is None, False or 0.
_OFF = {*table.KERAS3_DEFAULTS, "decay", "adaptive_epsilon"}

# These keys are ignored with any value if the class has no such argument. `jit_compile` says
# how steps are compiled. `is_legacy_optimizer` distinguishes classes of Keras 2 with the same
# name. The other keys have an effect only with `use_ema=True`, which is never ignored.
_ANY = {"jit_compile", "is_legacy_optimizer", "ema_momentum", "ema_overwrite_frequency"}

# Legacy optimizers accept these arguments as `**kwargs`, so their signatures lack them.
_LEGACY_KEYWORDS = ("decay", "clipnorm", "clipvalue", "global_clipnorm")


def plain(value):
    """Return a copy of a config with Python numbers instead of arrays and tensors."""
    if isinstance(value, dict):
        # Since TensorFlow 2.12, a config contains a dict like this for an array or a tensor.
        if value.get("class_name") in ("__numpy__", "__tensor__"):
            return plain(value["config"]["value"])
        return {key: plain(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, tuple) else list)(map(plain, value))
    if tf.is_tensor(variables_lib.raw(value)):
        value = np.asarray(variables_lib.raw(value))
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def plain_dict(config, what):
    """Return a `plain` copy of `config`, or raise TypeError if `config` is not a dict."""
    if not isinstance(config, dict):
        raise TypeError(
            f"{what} must be a dict, but got {config!r} of type {type(config).__name__}."
        )
    return plain(config)


def checked(config, what="The config of an optimizer"):
    """Return a `plain` copy of a config, or raise an error if the config is incomplete."""
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


def short_name(config):
    """Return the class name in a config, in lower case and without the package."""
    return config["class_name"].split(">")[-1].lower()


def _written_by_keras3(config):
    keys = config["config"].keys()
    by_its_absence = "registered_name" in config and not _KEYS_OF_KERAS2 & keys
    return by_its_absence or bool(_KEYS_OF_KERAS3 & keys)


def _package_of(config):
    if _written_by_keras3(config) and keras_versions.has_keras3():
        return "keras"
    # Configs of TensorFlow 2.12-2.15 and configs of tf_keras look the same. If tf_keras is the
    # only Keras 2 that the program has imported, assume that tf_keras wrote the config.
    if "registered_name" in config and keras_versions.imported_keras2() == ["tf_keras"]:
        return "tf_keras"
    return keras_versions.package_of_tensorflow()


def custom_class(config, custom_objects, packages, *names):
    """Return the class that the user passed or registered for a config, or None."""
    own = [config.get("registered_name") or "", config["class_name"]]
    names = [*own, *(name.split(">")[-1] for name in own), *names]
    found = [(custom_objects or {}).get(name) for name in names]
    for name in names:
        for package in packages:
            saving = keras_versions.public(package).saving
            registered = saving.get_registered_object(name)
            # Keras 2 also registers some of its own classes.
            if inspect.isclass(registered) and not keras_versions.is_of_one(registered):
                found.append(registered)
    return next(filter(inspect.isclass, found), None)


def _kind_of(cls, name):
    """Return the Keras package of a class, and its family, a key of `optimizer_bases`."""
    for package in keras_versions.imported():
        for kind, base in keras_versions.optimizer_bases(package).items():
            if issubclass(cls, base):
                return package, kind
    raise TypeError(
        f"{name!r} of `custom_objects` must be the class of an optimizer of Keras 3 or "
        f"Keras 2, but got {cls!r}."
    )


def _class_of_keras(config, package, base):
    package = package or _package_of(config)
    bases = [base] if base else list(keras_versions.optimizer_bases(package).values())
    keys = config["config"]
    # Configs of TensorFlow 2.9 and of Keras 3 do not have the key `is_legacy_optimizer`. Treat
    # such a config as legacy, as Keras 2 does, unless the config is empty or contains an
    # argument that only newer optimizers have.
    default = bool(keys) and not _KEYS_OF_NEW & keys.keys()
    is_legacy = keys.get("is_legacy_optimizer", default)
    # The names of some classes began with "Experimental" in TensorFlow 2.9.
    name = short_name(config).removeprefix("experimental")
    # A class may be in any of these modules: the versions of Keras 2 differ, and
    # `install(like="2.4")` puts the legacy classes into `optimizers` itself.
    spaces = [vars(keras_versions.public(package).optimizers)]
    spaces += [vars(spaces[0][n]) for n in ("legacy", "experimental") if n in spaces[0]]
    members = [v for space in spaces for v in space.values() if inspect.isclass(v)]
    for one in bases if is_legacy else bases[::-1]:
        classes = [c for c in members if issubclass(c, one) and c is not one]
        for cls in classes:
            if cls.__name__.lower() == name:
                return cls
    names = sorted(cls.__name__ for cls in classes)
    raise ValueError(
        f"Unknown optimizer {config['class_name']!r}. {package} has {names}. Pass a class "
        "of your own in `custom_objects`."
    )


def make(config, cls=None, custom_objects=None, package=None, base=None):
    """Create an optimizer from a config, which must not be the config of a wrapper.

    `config` must come from `checked`. `cls` is the user's class, or None for a class of Keras.
    The class of Keras must belong to `package` and derive from `base`, unless these are None.
    """
    cls = cls or _class_of_keras(config, package, base)
    package, kind = _kind_of(cls, config["class_name"])
    saving = keras_versions.public(package).saving
    with saving.custom_object_scope(custom_objects or {}):
        return cls.from_config(_arguments(cls, package, kind, config["config"]))


def is_neutral(key, value):
    """Return whether a key of a config may be dropped if the class has no such argument."""
    return key in _ANY or (key in _OFF and not value)


def _arguments(cls, package, kind, config):
    """Return the arguments for `cls.from_config`, or raise an error if one is not accepted."""
    takes = dict.fromkeys(_LEGACY_KEYWORDS if kind == "legacy" else ())
    for base in cls.__mro__:
        parameters = inspect.signature(base.__init__).parameters.values()
        for one in parameters:
            takes.setdefault(one.name, one.default)
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            # A constructor without **kwargs accepts only its own parameters.
            break
    given = {}
    for key, value in config.items():
        if given.setdefault("learning_rate" if key == "lr" else key, value) != value:
            raise ValueError(
                f"The config of {cls.__name__} must not have different values of 'lr' and "
                f"'learning_rate', but got {config!r}."
            )
    if isinstance(given.get("learning_rate"), dict):
        given["learning_rate"] = _schedule(given["learning_rate"], package)
    _convert_decay(cls, package, takes, given)
    arguments = {}
    for key, value in given.items():
        # In a config of Keras 2, `epsilon` or `name` may be None, which means the default.
        is_default = value is None and key in ("epsilon", "name")
        if is_default or (key not in takes and is_neutral(key, value)):
            continue
        if key not in takes and keras_versions.is_of_one(cls):
            raise ValueError(
                f"{cls.__name__} of {package} does not have {key!r}, so the "
                f"config's {key!r}: {value!r} cannot be kept. Remove it from the config, "
                "or pass a class of your own in `custom_objects`."
            )
        # A user's class may accept a key in its **kwargs that no signature lists.
        arguments[key] = _as_default(cls, key, value, takes.get(key))
    return arguments


def _as_default(cls, key, value, default):
    """Return a number as a float if the argument's default is a float."""
    is_of_a_callable = callable(value) or isinstance(value, dict)
    if not isinstance(default, float) or value is None or is_of_a_callable:
        return value
    if type(value) not in (int, float):
        raise TypeError(
            f"The config of {cls.__name__} has {key!r}: {value!r}, which is not a number."
        )
    # Keras 3 refuses an int as `momentum` or `learning_rate`.
    return float(value)


def _convert_decay(cls, package, takes, config):
    """Replace `decay` by an equivalent schedule if the class does not accept `decay`."""
    # The `decay` of a Nadam does not decay the learning rate. The legacy Nadam saved the
    # constant of its momentum schedule under this key: 0.004, or the nearest float32 number if
    # the optimizer had taken a step.
    is_nadam = "Nadam" in {base.__name__ for base in cls.__mro__}
    if is_nadam and config.get("decay") in (0.004, float(np.float32(0.004))):
        del config["decay"]
    if is_nadam or "decay" in takes or not config.get("decay"):
        return
    decay = config.pop("decay")
    rate = config.get("learning_rate", takes.get("learning_rate"))
    if not isinstance(rate, (int, float)):
        raise ValueError(
            f"The config of {cls.__name__} has 'decay': {decay!r} and 'learning_rate': "
            f"{rate!r}, and no schedule of {package} does both. Write a "
            "LearningRateSchedule that combines them."
        )
    schedules = keras_versions.public(package).optimizers.schedules
    config["learning_rate"] = schedules.InverseTimeDecay(float(rate), 1, float(decay))


def _schedule(config, package):
    if config.get("class_name") in ("function", "__lambda__"):
        # Keras 3 itself saves a callable `learning_rate` as a config, and loads that config.
        return config
    config = checked(config, "The config of a 'learning_rate'")
    schedules = keras_versions.public(package).optimizers.schedules
    name, arguments = config["class_name"], config["config"]
    cls = custom_class(config, None, [package])
    cls = cls or getattr(schedules, name.split(">")[-1], None)
    if cls is None or not issubclass(cls, schedules.LearningRateSchedule):
        raise (ValueError if cls is None else TypeError)(
            f"{name!r} of the 'learning_rate' must be a LearningRateSchedule of "
            f"{package}, but got {cls!r}. Pass a class of your own as "
            f"custom_objects={{{name!r}: ...}}."
        )
    if arguments.get("name", "") is None:
        # The name None, which Keras 2 writes by default, means the default name.
        del arguments["name"]
    return cls.from_config(arguments)
