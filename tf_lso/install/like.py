"""Use the Keras of an earlier TensorFlow, for `install(like=...)` and `tf-lso run --like`.

In TensorFlow 2.0-2.10 `tf.keras` was Keras 2 with optimizers that are now called legacy. In
2.11-2.15 `tf.keras` was Keras 2 with newer optimizers, and `tf.keras.optimizers.legacy`
contained the legacy optimizers. Since 2.16 `tf.keras` is Keras 3, and Keras 2 is the package
tf_keras.
"""

import contextlib
import importlib
import inspect
import os
import re
import sys
import types

from tf_lso.frameworks import environment, keras_versions

# Two environment variables, which child processes of `tf-lso run` read too. The first contains
# the chosen version, such as "2.4". The second is "0" if `import keras` stays Keras 3.
VARIABLE = "TF_LSO_LIKE"
IMPORT_KERAS = "TF_LSO_IMPORT_KERAS"

# The environment variable that makes `tf.keras` the package tf_keras ("1") or keras ("0") when
# TensorFlow 2.15 or later is imported.
_CHOICE = "TF_USE_LEGACY_KERAS"
_OLDEST, _KERAS3 = (2, 0), (2, 16)


def parsed(like: str) -> tuple[int, int]:
    """Return the major and minor version that `like` names.

    A number is refused, because 2.10 is equal to 2.1.
    """
    major, minor = newest = max(environment.PAIRS)
    known = f"a version of TensorFlow from 2.0 to {major}.{minor}, such as '2.4'"
    if not isinstance(like, str):
        raise TypeError(f"'like' must be a str, {known}, but got: {like!r}.")
    found = re.fullmatch(r"(\d+)\.(\d+)(\.\w+)*", like)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if not _OLDEST <= version <= newest:
        raise ValueError(f"'like' must be {known}, but got: {like!r}.")
    return version


def choose(like: str, import_keras: bool = True) -> None:
    """Make TensorFlow use the Keras of the version `like`.

    If TensorFlow is already imported, check that it uses this Keras. If `import_keras` is
    True, `import keras` is to lead to this Keras too, so check that the program has not
    imported Keras 3 yet.
    """
    of_keras2 = parsed(like) < _KERAS3
    here = environment.tensorflow_version()
    if here < _KERAS3:
        if not of_keras2:
            raise ImportError(
                f"like={like!r} means Keras 3, which TensorFlow {here[0]}.{here[1]} does "
                'not have. Install a later one: `pip install "tensorflow>=2.16"`.',
                name="tensorflow",
            )
        return
    start = (
        "Call install() before the first import of TensorFlow and of Keras, or start the "
        f"program with `tf-lso run --like {like}`."
    )
    importer = _importer_of_keras3() if of_keras2 and import_keras else None
    if importer is not None:
        raise RuntimeError(
            f"like={like!r} makes `import keras` Keras 2, but {importer} has already "
            f"imported Keras {keras_versions.version('keras')}. {start} If that module "
            "needs Keras 3, pass import_keras=False to install(). See "
            "`tf-lso help import-keras`"
        )
    if "tensorflow" in sys.modules:
        package = keras_versions.package_of_tensorflow()
        if keras_versions.is_keras2(package) != of_keras2:
            raise RuntimeError(
                f"like={like!r} means Keras {2 if of_keras2 else 3}, but TensorFlow was "
                f"already imported, with {package} {keras_versions.version(package)}. "
                f"{start}"
            )
    else:
        if of_keras2:
            environment.require_tf_keras(f"like={like!r}", here)
        os.environ[_CHOICE] = "1" if of_keras2 else "0"


def _importer_of_keras3() -> str | None:
    """Return a phrase that names a module of the program that uses Keras 3, or None."""
    keras = sys.modules.get("keras")
    if getattr(keras, "__name__", None) != "keras" or keras_versions.is_keras2("keras"):
        return None
    own = (*keras_versions.PACKAGES, "tensorflow", "tf_lso")
    for name, module in [*sys.modules.items()]:
        values = [*getattr(module, "__dict__", {}).values()]
        if name.split(".")[0] not in own and any(map(_is_of_keras, values)):
            return f"the module {name!r}"
    return None


def _is_of_keras(value: object) -> bool:
    """Return whether a module, class or function belongs to the package `keras`.

    Other objects are not examined, because some of them import a module as soon as a program
    reads one of their attributes.
    """
    if type(value) is types.ModuleType:
        return value.__name__.split(".")[0] == "keras"
    if isinstance(value, (type, types.FunctionType)):
        # `__module__` of some classes is a property.
        return str(value.__module__).split(".")[0] == "keras"
    return False


def is_in(like: str | None, versions: str) -> bool:
    """Return whether the version `like` is one of `versions`, such as "2.4-2.15"."""
    if like is None:
        return False
    oldest, newest = versions.split("-")
    return parsed(oldest) <= parsed(like) <= parsed(newest)


def aggregate_gradients(keras, ledger):
    """Make `_aggregate_gradients` return only the gradients, and add `_clip_gradients`.

    Today's `_aggregate_gradients` returns (gradient, variable) pairs. Some programs contain a
    copy of the training step of TensorFlow 2.2-2.3, which calls both methods.
    """
    # `keras2_legacy` imports TensorFlow, and `choose` runs before TensorFlow is imported.
    from tf_lso.optimizers.families.keras2_legacy import aggregates_pairs

    owner = keras.optimizers.legacy.Optimizer

    @ledger.around(owner, "apply_gradients")
    def apply_gradients(original, *args, **kwargs):
        with aggregates_pairs.on():
            return original(*args, **kwargs)

    @ledger.around(owner, "_aggregate_gradients")
    def aggregate(original, self, grads_and_vars):
        pairs = original(self, grads_and_vars)
        return pairs if aggregates_pairs.is_on else [g for g, _ in pairs]

    # Today's Keras 2 clips gradients when it applies them.
    ledger.add_missing(owner, {"_clip_gradients": lambda self, grads: grads})


def public_modules(package, below=""):
    """Return the modules that programs know as `tf.keras`.

    If `below` is the name of a submodule, such as ".optimizers", return the submodules of
    this name instead. Call this function before any change, since the first import of
    `tensorflow.keras` copies the attributes of Keras.
    """
    apis = ("_v1.keras", "_v2.keras", "keras")
    places = [package, *(f"{package}.api.{api}" for api in apis)]
    if keras_versions.package_of_tensorflow() == package:
        places.append("tensorflow.keras")
    modules = []
    for place in places:
        with contextlib.suppress(ImportError):
            modules.append(importlib.import_module(f"{place}{below}"))
    return modules


def use_legacy_optimizers(keras, ledger):
    """Make `tf.keras.optimizers.X` the legacy class, as in TensorFlow 2.0-2.10."""
    package = keras_versions.package_of(keras)
    modules = public_modules(package, ".optimizers")
    for function in ("get", "deserialize"):

        @ledger.around(keras_versions.private(package, "optimizers"), function)
        def with_legacy_classes(original, *args, **kwargs):
            return original(*args, **{"use_legacy_optimizer": True, **kwargs})

    for name, value in vars(keras.optimizers.legacy).items():
        for module in modules if inspect.isclass(value) else ():
            ledger.set_attribute(module, name, value)
