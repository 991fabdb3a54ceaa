"""Supported versions of TensorFlow and Keras, and errors for missing packages."""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
import types
from typing import NamedTuple, NoReturn

from tf_lso.frameworks import log


class Versions(NamedTuple):
    """The oldest and newest tested minor versions. `accepts_later` allows newer ones too."""

    oldest: tuple[int, int]
    newest: tuple[int, int]
    accepts_later: bool = False


_KERAS3 = {
    "keras": Versions((3, 0), (3, 15), accepts_later=True),
    "tf_keras": Versions((2, 16), (2, 21), accepts_later=True),
}


def _own_keras(minor: int) -> Versions:
    return Versions((2, minor), (2, minor))


# Maps a minor version of TensorFlow to {Keras package: versions of this package that work}.
PAIRS: dict[tuple[int, int], dict[str, Versions]] = {
    **{(2, minor): {"keras": _own_keras(minor)} for minor in range(12, 15)},
    (2, 15): {"keras": _own_keras(15), "tf_keras": _own_keras(15)},
    **{(2, minor): _KERAS3 for minor in range(16, 22)},
}

# The modules of Keras 3, by name, while `install(like=...)` makes `import keras` lead to
# tf_keras. Otherwise the dict is empty.
hidden: dict[str, types.ModuleType] = {}

_INSTALL = (
    "Install one of the distributions that provide it, for instance "
    "`pip install 'tf-lso[tensorflow]'` (GPU and CPU) or "
    "`pip install 'tf-lso[tensorflow-cpu]'`."
)
MISSING = f"tf_lso needs TensorFlow, which is not installed. {_INSTALL}"


def module(name: str) -> types.ModuleType:
    """Import a module of a Keras package, such as "keras.src.backend".

    After `install(like=...)`, the statement `import keras` may lead to tf_keras. Code that
    needs Keras 3 then calls this function instead.
    """
    return hidden.get(name) or importlib.import_module(name)


def require(package: str, message: str) -> None:
    if not _is_installed(package):
        raise ImportError(message, name=package)


def _is_installed(package: str) -> bool:
    return bool(sys.modules.get(package) or importlib.util.find_spec(package))


def require_tensorflow() -> None:
    """Raise ImportError unless a supported pair of TensorFlow and Keras is installed."""
    # The package tf_lso does not declare TensorFlow as a requirement, because pip might then
    # overwrite the TensorFlow distribution that the user has installed.
    require("tensorflow", MISSING)
    import tensorflow as tf

    try:
        version = str(module("keras").__version__)
    except (AttributeError, ImportError) as error:
        _refuse_broken_keras(tf.__version__, error)
        return
    check_pair(tf.__version__, "keras", version)


def _refuse_broken_keras(tensorflow: str, error: Exception) -> None:
    try:
        version = importlib.metadata.version("keras")
    except importlib.metadata.PackageNotFoundError:
        remedy = "Install TensorFlow again, which installs Keras."
    else:
        # If this version is the problem, the error names the supported versions.
        check_pair(tensorflow, "keras", version)
        remedy = (
            f'Install it again: `pip install --force-reinstall "keras=={version}"`.'
        )
    require_legacy_keras()
    raise ImportError(
        f"tf_lso needs Keras, which cannot be imported: {error}. {remedy}", name="keras"
    ) from error


def check_pair(tensorflow: str, package: str, version: str) -> None:
    """Raise ImportError if tf_lso does not support this pair of TensorFlow and Keras.

    From TensorFlow 2.16 on, versions that are newer than the tested ones only cause a warning.
    """
    minor, oldest = _minor(tensorflow), min(PAIRS)
    if minor < oldest:
        message = (
            f"tf_lso supports tensorflow {_notation(oldest)}, but found {tensorflow}."
        )
        _refuse(message, "tensorflow", _notation(oldest))
    pair = _pair(minor)
    if package not in pair:
        message = (
            f"tf_lso supports no {package} with TensorFlow {tensorflow}, but found"
        )
        own = pair["keras"]
        _refuse(f"{message} {version}.", "keras", _notation(own.oldest, own.newest))
    supported, found = pair[package], _minor(version)
    is_newer = found > supported.newest
    if found < supported.oldest or (is_newer and not supported.accepts_later):
        newest = None if supported.accepts_later else supported.newest
        wanted = _notation(supported.oldest, newest)
        message = f"tf_lso supports {package} {wanted} with TensorFlow {tensorflow}, "
        _refuse(f"{message}but found {version}.", package, wanted)
    if is_newer or minor > max(PAIRS):
        _warn_once(f"TensorFlow {tensorflow} with {package} {version}")


def _pair(tensorflow: tuple[int, int]) -> dict[str, Versions]:
    """Return the supported versions. A newer TensorFlow counts as the newest tested one."""
    return PAIRS.get(min(tensorflow, max(PAIRS)), {})


def _refuse(message: str, package: str, wanted: str) -> NoReturn:
    # Several distributions may contain the same package. For instance, tensorflow-cpu also
    # contains the package tensorflow. So the command names the installed distribution, unless
    # it is a nightly one: those have no release in the range `wanted`.
    installed = importlib.metadata.packages_distributions().get(package, [package])
    name = package if _is_nightly(package) else installed[0]
    raise ImportError(
        f"{message} Install a supported one, for instance "
        f'`pip install "{name}{wanted}"`.'
    )


_warnings: list[str] = []


def _warn_once(found: str) -> None:
    if _warnings:
        return
    newest = max(PAIRS)
    keras, tf_keras = PAIRS[newest]["keras"], PAIRS[newest]["tf_keras"]
    _warnings.append(
        f"tf_lso is tested with TensorFlow {_span(min(PAIRS), newest)}, Keras "
        f"{_span(keras.oldest, keras.newest)} and tf_keras "
        f"{_span(tf_keras.oldest, tf_keras.newest)}, but found {found}, which is newer. "
        "tf_lso continues. If something fails that works with the tested versions, install "
        "those, or a newer tf_lso."
    )
    log.logger().warning(_warnings[0])


def tensorflow_version() -> tuple[int, int]:
    """Return (major, minor) of the installed TensorFlow without importing TensorFlow."""
    try:
        return _minor(importlib.metadata.version("tensorflow"))
    except importlib.metadata.PackageNotFoundError:
        # Another distribution may contain it, such as tf-nightly.
        names = importlib.metadata.packages_distributions().get("tensorflow", [])
    if not names:
        raise ImportError(MISSING, name="tensorflow")
    return _minor(importlib.metadata.version(names[0]))


def require_tf_keras(reason: str, tensorflow: tuple[int, int]) -> None:
    """Raise ImportError if tf_keras, which the user's setting `reason` requires, is missing."""
    # `install` asks about a hundred times. Reading the metadata takes 0.1 s or more.
    if _is_installed("tf_keras"):
        return
    install = f'`pip install "tf-keras=={tensorflow[0]}.{tensorflow[1]}.*"`'
    if _is_nightly("tensorflow"):
        # No release of tf-keras matches a nightly TensorFlow.
        install = "`pip install --no-deps tf_keras-nightly`"
    raise ImportError(
        f"{reason} makes tf.keras the package tf_keras, which is not installed. Install "
        f"it, {install}, or remove {reason.partition('=')[0]}.",
        name="tf_keras",
    )


def _is_nightly(package: str) -> bool:
    installed = importlib.metadata.packages_distributions().get(package, [])
    return any("nightly" in name for name in installed)


def require_tensorboard(what: str) -> None:
    message = "needs the package tensorboard, which is not installed: "
    require("tensorboard", f"{what} {message}`pip install tensorboard`.")


def require_legacy_keras() -> None:
    """Raise ImportError if TF_USE_LEGACY_KERAS selects tf_keras but tf_keras is missing."""
    import tensorflow as tf

    wanted = os.environ.get("TF_USE_LEGACY_KERAS")
    has_effect = "tf_keras" in _pair(_minor(tf.__version__))
    if wanted in ("1", "true", "True") and has_effect:
        reason = f"TF_USE_LEGACY_KERAS={wanted} in the environment"
        require_tf_keras(reason, _minor(tf.__version__))


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _span(oldest: tuple[int, int], newest: tuple[int, int]) -> str:
    return f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"


def _notation(oldest: tuple[int, int], newest: tuple[int, int] | None = None) -> str:
    """Return a range of versions in pip's notation. `newest=None` means no upper bound."""
    beyond = f",<{newest[0]}.{newest[1] + 1}" if newest else ""
    return f">={oldest[0]}.{oldest[1]}{beyond}"


def require_tensorflow_backend() -> None:
    backend = module("keras").backend.backend()
    if backend != "tensorflow":
        raise RuntimeError(
            "tf_lso scales losses of TensorFlow programs, but Keras uses the backend "
            f"{backend!r}. Set KERAS_BACKEND=tensorflow in the environment before "
            "Keras is imported."
        )
