"""What tf_lso needs from the machine, and which framework versions it supports."""

import importlib.metadata
import importlib.util
import os

from tf_lso import log

# Framework -> the oldest supported version, and the first that is too new.
SUPPORTED = {
    "tensorflow": ((2, 16), (2, 22)),
    "keras": ((3, 0), (4, 0)),
    "tf_keras": ((2, 16), (2, 22)),
}

# Environment variable: set it to 1 to try versions outside the range.
OVERRIDE = "TF_LSO_ANY_VERSION"

_INSTALL = (
    "Install one of the distributions that provide it, for instance "
    "`pip install tf-lso[tensorflow]` (GPU and CPU) or "
    "`pip install tf-lso[tensorflow-cpu]`."
)
MISSING = f"tf_lso needs TensorFlow, which is not installed. {_INSTALL}"


def require_tensorflow() -> None:
    """Raise a clear ImportError unless supported TensorFlow and Keras can be imported.

    The package does not require TensorFlow, since several distributions provide it. To
    require one of them could overwrite the user's.

    Raises:
      ImportError: if TensorFlow is missing, or a version is not supported.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise ImportError(MISSING, name="tensorflow")
    import tensorflow as tf

    check_version("tensorflow", tf.__version__)
    import keras

    check_version("keras", keras.__version__)


def tensorflow_uses_tf_keras() -> bool:
    """Whether `tf.keras` is tf_keras, which TF_USE_LEGACY_KERAS decides.

    Raises:
      ImportError: if it should be tf_keras, but tf_keras is not installed.
    """
    import keras
    import tensorflow as tf

    wanted = os.environ.get("TF_USE_LEGACY_KERAS")
    if wanted in ("1", "true", "True") and not importlib.util.find_spec("tf_keras"):
        minor = tf.__version__.rpartition(".")[0]
        raise ImportError(
            f"TF_USE_LEGACY_KERAS={wanted} in the environment makes tf.keras Keras 2, "
            "which the package tf_keras has; it is not installed. Install it, "
            f'`pip install "tf-keras=={minor}.*"`, or leave TF_USE_LEGACY_KERAS out.',
            name="tf_keras",
        )
    return bool(tf.keras.Model is not keras.Model)


def check_version(framework: str, version: str) -> None:
    """Raise a clear ImportError if a framework's version is outside the range.

    Args:
      framework: a key of `SUPPORTED`.
      version: its `__version__`.

    Raises:
      ImportError: if the version is outside the range.
    """
    oldest, beyond = SUPPORTED[framework]
    major, minor = version.split(".")[:2]
    if oldest <= (int(major), int(minor)) < beyond:
        return
    message = f"tf_lso supports {framework} {supported_range(framework)}, but found {version}."
    if os.environ.get(OVERRIDE) == "1":
        log.logger().warning("%s It goes on, since %s=1.", message, OVERRIDE)
        return
    name = importlib.metadata.packages_distributions().get(framework, [framework])[0]
    raise ImportError(
        f"{message} Install a supported one, for instance "
        f'`pip install "{name}{supported_range(framework).replace(" ", "")}"`, or set '
        f"{OVERRIDE}=1 in the environment to try this one."
    )


def supported_range(framework: str) -> str:
    """Return the supported versions of a framework in the notation of pip."""
    oldest, beyond = (".".join(map(str, end)) for end in SUPPORTED[framework])
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
