"""What tf_lso needs from the machine, and which framework versions it supports."""

import importlib.metadata
import importlib.util
import os
import sys

from tf_lso import log

# A supported range: the oldest version, and the first that is too new.
_Range = tuple[tuple[int, int], tuple[int, int]]


def _same_minor(minor: int) -> _Range:
    return (2, minor), (2, minor + 1)


_KERAS3 = {"keras": ((3, 0), (4, 0)), "tf_keras": ((2, 16), (2, 22))}

# Minor version of TensorFlow -> each Keras that it works with, and its versions.
PAIRS: dict[tuple[int, int], dict[str, _Range]] = {
    **{(2, minor): {"keras": _same_minor(minor)} for minor in range(12, 15)},
    (2, 15): {"keras": _same_minor(15), "tf_keras": _same_minor(15)},
    **{(2, minor): _KERAS3 for minor in range(16, 22)},
}

# Environment variable: set it to 1 to try versions outside the range.
OVERRIDE = "TF_LSO_ANY_VERSION"

_INSTALL = (
    "Install one of the distributions that provide it, for instance "
    "`pip install 'tf-lso[tensorflow]'` (GPU and CPU) or "
    "`pip install 'tf-lso[tensorflow-cpu]'`."
)
MISSING = f"tf_lso needs TensorFlow, which is not installed. {_INSTALL}"


def require(package: str, message: str) -> None:
    """Raise ImportError with a message if a package is not installed."""
    if sys.modules.get(package) is None and importlib.util.find_spec(package) is None:
        raise ImportError(message, name=package)


def require_tensorflow() -> None:
    """Raise ImportError unless a supported pair of TensorFlow and Keras is installed."""
    # No requirement of the package: that could overwrite the user's distribution of it.
    require("tensorflow", MISSING)
    import tensorflow as tf

    try:
        import keras

        version = str(keras.__version__)
    except (AttributeError, ImportError) as error:
        _tell_of_broken_keras(tf.__version__, error)
        return
    check_pair(tf.__version__, "keras", version)


def _tell_of_broken_keras(tensorflow: str, error: Exception) -> None:
    """Raise ImportError for a Keras that cannot be imported, and say why it may be so."""
    try:
        version = importlib.metadata.version("keras")
    except importlib.metadata.PackageNotFoundError:
        remedy = "Install TensorFlow anew, which brings it."
    else:
        check_pair(tensorflow, "keras", version)  # the usual reason
        remedy = f'Install it anew, `pip install --force-reinstall "keras=={version}"`.'
    require_legacy_keras()
    raise ImportError(
        f"tf_lso needs Keras, which cannot be imported: {error}. {remedy}", name="keras"
    ) from error


def check_pair(tensorflow: str, package: str, version: str) -> None:
    """Raise ImportError for a pair of TensorFlow and "keras" or "tf_keras" that is none."""
    minor = _minor(tensorflow)
    if minor not in PAIRS:
        major, newest = max(PAIRS)
        wanted = _notation((min(PAIRS), (major, newest + 1)))
        message = f"tf_lso supports tensorflow {wanted}, but found {tensorflow}."
        _refuse(message, "tensorflow", wanted)
        return
    pair = PAIRS[minor]
    beside = f"Beside TensorFlow {tensorflow} tf_lso supports"
    if package not in pair:
        message = f"{beside} no {package}, but found {version}."
        _refuse(message, "keras", _notation(pair["keras"]))
    elif not pair[package][0] <= _minor(version) < pair[package][1]:
        wanted = _notation(pair[package])
        _refuse(f"{beside} {package} {wanted}, but found {version}.", package, wanted)


def _refuse(message: str, package: str, wanted: str) -> None:
    if os.environ.get(OVERRIDE) == "1":
        log.logger().warning("%s It goes on, since %s=1.", message, OVERRIDE)
        return
    name = importlib.metadata.packages_distributions().get(package, [package])[0]
    raise ImportError(
        f"{message} Install a supported one, for instance "
        f'`pip install "{name}{wanted.replace(" ", "")}"`, or set '
        f"{OVERRIDE}=1 in the environment to try this one."
    )


def tensorflow_version() -> tuple[int, int]:
    """Return the major and minor version of the TensorFlow here; it is not imported."""
    names = importlib.metadata.packages_distributions().get("tensorflow", [])
    if not names:
        raise ImportError(MISSING, name="tensorflow")
    return _minor(importlib.metadata.version(names[0]))


def require_tf_keras(reason: str, tensorflow: tuple[int, int]) -> None:
    """Raise ImportError if tf_keras is missing, which the user's `reason` makes `tf.keras`."""
    require(
        "tf_keras",
        f"{reason} makes tf.keras the package tf_keras, which is not installed. Install "
        f'it, `pip install "tf-keras=={tensorflow[0]}.{tensorflow[1]}.*"`, or leave '
        f"{reason.partition('=')[0]} out.",
    )


def require_tensorboard(what: str) -> None:
    """Raise ImportError if TensorBoard, which `what` needs, is missing."""
    message = "writes by the package tensorboard, which is not installed: "
    require("tensorboard", f"{what} {message}`pip install tensorboard`.")


def require_legacy_keras() -> None:
    """Raise ImportError if `tf.keras` is to be tf_keras, but that is missing."""
    import tensorflow as tf

    wanted = os.environ.get("TF_USE_LEGACY_KERAS")
    has_effect = "tf_keras" in PAIRS.get(_minor(tf.__version__), {"tf_keras": None})
    if wanted in ("1", "true", "True") and has_effect:
        reason = f"TF_USE_LEGACY_KERAS={wanted} in the environment"
        require_tf_keras(reason, _minor(tf.__version__))


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _notation(supported: _Range) -> str:
    oldest, beyond = (".".join(map(str, end)) for end in supported)
    return f">={oldest}, <{beyond}"


def require_tensorflow_backend() -> None:
    """Raise RuntimeError unless TensorFlow is the backend of Keras 3."""
    import keras

    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise RuntimeError(
            "tf_lso scales losses of TensorFlow programs, but Keras uses the backend "
            f"{backend!r}. Set KERAS_BACKEND=tensorflow in the environment before "
            "Keras is imported."
        )
