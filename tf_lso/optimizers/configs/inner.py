"""Find the class that the config of an optimizer means: of a family, or the user's.

`serialize` of TensorFlow 2.0-2.15, tf_keras or Keras 3 returned the config:
{"class_name": ..., "config": {...}}. Since TensorFlow 2.12 it also has "module" and
"registered_name".
"""

import dataclasses
import functools
import importlib.util
import inspect
import types

import numpy as np
import tensorflow as tf

from tf_lso import kerases
from tf_lso.optimizers import variables as variables_lib

# These keys tell who wrote a config that does not say it.
KEYS_OF_KERAS3 = {"loss_scale_factor", "gradient_accumulation_steps"}
KEYS_OF_KERAS2 = {"decay", "jit_compile", "is_legacy_optimizer"}
KEYS_OF_NEW = {"jit_compile", "use_ema", "weight_decay", *KEYS_OF_KERAS3}
MODULES_OF_KERAS2 = ("keras.optimizers.legacy", "keras.optimizers.experimental")

# Arguments that are accepted by name, although no signature has them.
LEGACY_KEYWORDS = ("lr", "decay", "clipnorm", "clipvalue", "global_clipnorm")


@dataclasses.dataclass(frozen=True)
class Family:
    """The optimizers that a config can become.

    Attributes:
      title: what messages call it.
      keras: the module with the public names of its Keras.
      classes: dict of lower-case names and the optimizer classes.
      base: the base class.
      keywords: further arguments of the classes, which no signature has.
    """

    title: str
    keras: types.ModuleType
    classes: dict
    base: type
    keywords: tuple = ()


def _classes(namespace, base):
    return {
        name.lower(): cls
        for name, cls in vars(namespace).items()
        if inspect.isclass(cls)
        and issubclass(cls, base)
        and cls is not base
        and not name.startswith("LossScaleOptimizer")
    }


def _kinds(package):
    """Return the kinds of optimizers of a package, those with the newer classes first."""
    return ("new", "legacy") if kerases.is_keras2(package) else ("keras3",)


@functools.cache
def family_of(package, kind):
    """Return a `Family`: "keras" or "tf_keras", and "keras3", "legacy" or "new" of it."""
    keras = kerases.public(package)
    if kind == "legacy":
        legacy = keras.optimizers.legacy
        return Family(
            f"{package}.optimizers.legacy",
            keras,
            _classes(legacy, legacy.Optimizer),
            legacy.Optimizer,
            LEGACY_KEYWORDS,
        )
    base = keras.optimizers.Optimizer
    title = "Keras 3" if kind == "keras3" else package
    return Family(title, keras, _classes(keras.optimizers, base), base)


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


def written_by_keras3(config):
    """Whether Keras 3 wrote the config of an optimizer."""
    keys = config["config"].keys()
    return bool(KEYS_OF_KERAS3 & keys) or (
        "registered_name" in config
        and not KEYS_OF_KERAS2 & keys
        and not str(config.get("module")).startswith(("tf_keras", *MODULES_OF_KERAS2))
    )


def package_written(config):
    """Return the package whose optimizer to make if only the config decides."""
    if str(config.get("module")).startswith("tf_keras"):
        return "tf_keras" if importlib.util.find_spec("tf_keras") else "keras"
    if written_by_keras3(config) and kerases.has_keras3():
        return "keras"
    # TensorFlow 2.12-2.15 and tf_keras wrote the same configs. A program that has tf_keras
    # beside Keras 3 gets optimizers of tf_keras. Others, and older configs, get what
    # `tf.keras` is now.
    if "registered_name" in config and kerases.imported_keras2() == ["tf_keras"]:
        return "tf_keras"
    return kerases.of_tensorflow()


def _is_new(config):
    """Whether it was one of the newer optimizers, the default since TensorFlow 2.11."""
    keys, module = config["config"], config.get("module")
    if "is_legacy_optimizer" in keys:
        return not keys["is_legacy_optimizer"]
    if not keys or KEYS_OF_NEW & keys.keys():
        return True
    return module in ("keras.optimizers", "keras.optimizers.experimental")


def find(config, custom_objects, package=None, kind=None):
    """Return the class that the config of an optimizer names, and its `Family`.

    Args:
      config: dict as `checked` returns.
      custom_objects: dict of names and classes.
      package: "keras" or "tf_keras", which it must belong to. If None, the config
        decides.
      kind: the only kind of optimizers of `package` that it may be, or None.

    Raises:
      TypeError: if the class in `custom_objects` is no optimizer class.
      ValueError: if the class is not known.
    """
    packages = [package] if package else kerases.imported()
    cls = custom_class(config, custom_objects, packages)
    if cls is not None:
        for one in kerases.imported():
            for family in (family_of(one, k) for k in _kinds(one)):
                if issubclass(cls, family.base):
                    return cls, family
        raise TypeError(
            f"{config['class_name']!r} of `custom_objects` must be the class of an "
            f"optimizer of Keras 3 or Keras 2, but got {cls!r}."
        )
    package = package or package_written(config)
    kinds = [kind] if kind else list(_kinds(package))
    if not _is_new(config):
        kinds.reverse()
    class_name = config["class_name"].split(">")[-1].lower()
    class_name = class_name.removeprefix("experimental")  # some classes of 2.9
    families = [family_of(package, kind) for kind in kinds]
    for family in families:
        if class_name in family.classes:
            return family.classes[class_name], family
    known = sorted(cls.__name__ for cls in families[0].classes.values())
    raise ValueError(
        f"Unknown optimizer {config['class_name']!r}. {families[0].title} has "
        f"{known}; give a class of your own as custom_objects="
        f"{{{config['class_name']!r}: ...}}."
    )
