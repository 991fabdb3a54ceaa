"""The Keras packages that a program may use, and the modules that contain their names.

| TensorFlow | the package `keras` | the package `tf_keras` |
|---|---|---|
| 2.12-2.14 | Keras 2 | - |
| 2.15 | Keras 2 | Keras 2 |
| 2.16-2.21 | Keras 3 | Keras 2 |

Only this module knows whether a package is Keras 2 or Keras 3. Elsewhere packages are
identified by the strings "keras" and "tf_keras".
"""

import functools
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

from tf_lso.frameworks import environment

PACKAGES = ("keras", "tf_keras")

# The modules with the public names of Keras 2. In 2.12 `keras` also contains private names.
_PUBLIC = {"keras": "keras.api._v2.keras", "tf_keras": "tf_keras"}

# The private modules of Keras 2.12 that old programs import. Since Keras 2.13 all private
# modules are in `keras.src`.
_PRIVATE_IN_2_12 = tuple(
    f"keras.mixed_precision.{module}"
    for module in ("device_compatibility_check", "loss_scale_optimizer", "policy")
)

# The packages that `install()` has changed. The set is in this module and not in
# `tf_lso.install`, because some modules that read the set must not import `tf_lso.install`.
installed: set[str] = set()

_Class = TypeVar("_Class", bound=type)


def version(package: str) -> str:
    """Import a package and return its version."""
    return str(environment.module(package).__version__)


def is_at_least(package: str, major: int, minor: int) -> bool:
    here = tuple(int(part) for part in version(package).split(".")[:2])
    return here >= (major, minor)


def is_keras2(package: str) -> bool:
    return version(package).startswith("2.")


def keras2_spelled(package: str) -> str:
    """Return how users of `package` spell Keras 2: `tf.keras` or `tf_keras`."""
    return "tf.keras" if package == "keras" and is_keras2(package) else "tf_keras"


def has_keras3() -> bool:
    return not is_keras2("keras")


def imported() -> list[str]:
    return [package for package in PACKAGES if package in sys.modules]


def imported_keras2() -> list[str]:
    return [package for package in imported() if is_keras2(package)]


def public(package: str) -> types.ModuleType:
    """Return the module that contains the public names of a package."""
    name = _PUBLIC[package] if is_keras2(package) else package
    return environment.module(name)


def private(package: str, path: str) -> types.ModuleType:
    """Return the private module of Keras 2 at a path relative to `keras.src`."""
    below = f"{package}.src" if is_at_least(package, 2, 13) else package
    return environment.module(f"{below}.{path}")


# Cache the base classes, because `install(like=...)` may later make the public names of the
# base classes refer to other classes.
@functools.cache
def optimizer_bases(package: str) -> dict[str, type]:
    """Return {family: base class} for the families of optimizers in a package."""
    optimizers = public(package).optimizers
    if not is_keras2(package):
        return {"keras3": optimizers.Optimizer}
    return {"legacy": optimizers.legacy.Optimizer, "new": optimizers.Optimizer}


def serialize_keras_object(package: str) -> Callable[[Any], dict[str, Any]]:
    """Return the function `serialize_keras_object`, which is private in Keras 2.12."""
    saving = public(package).saving
    if not is_at_least(package, 2, 13):
        saving = private(package, "saving.serialization_lib")
    return saving.serialize_keras_object  # type: ignore[no-any-return]


def state_of_keras3() -> types.ModuleType:
    """Return the module with Keras 3's global policy, automatic names and seed generators."""
    return environment.module("keras.src.backend.common.global_state")


def is_own_private(name: str) -> bool:
    """Return whether an imported Keras 2 package has a private module with this name."""
    package = name.split(".")[0]
    if package not in imported() or not is_keras2(package):
        return False
    if is_at_least(package, 2, 13):
        return name.startswith(f"{package}.src.")
    return name in _PRIVATE_IN_2_12


def package_of(value: Any) -> str:
    """Return the top-level package of a module, a class or a function."""
    name: str = getattr(value, "__module__", None) or value.__name__
    return name.split(".")[0]


def is_of_one(value: Any) -> bool:
    """Return whether a class or a function belongs to a Keras package."""
    return package_of(value) in PACKAGES


def package_of_tensorflow() -> str:
    """Return the package behind `tf.keras`, which TF_USE_LEGACY_KERAS may change."""
    environment.require_legacy_keras()
    import tensorflow as tf

    return package_of(tf.keras.Model)


def register_as(cls: type, bound: type, package: str) -> None:
    """Make Keras save instances of `bound`, a subclass of `cls`, under the name of `cls`."""
    saving = public(package).saving
    full = _names.get(cls) or saving.get_registered_name(cls)
    namespace, _, name = full.rpartition(">")
    if namespace:
        objects = saving.get_custom_objects()
        # Register `bound` only for saving, and then put the earlier object back. Keras loads
        # optimizers of all families by that object, but `bound` makes those of one family.
        # Remove the object before, because Keras 2.12 refuses to register a name twice.
        before = objects.pop(full, cls)
        saving.register_keras_serializable(namespace, name)(bound)
        objects[full] = before


# Maps a class of tf_lso to its name in files, by which Keras looks up the class.
_names: dict[type, str] = {}


def named_in_files(full: str) -> Callable[[_Class], _Class]:
    """Set the full name of a class in files, such as "tf_lso>LossScaleOptimizer"."""

    def name(cls: _Class) -> _Class:
        _names[cls] = full
        return cls

    return name
