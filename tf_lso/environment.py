"""What tf_lso needs from the machine: the one room for versions of the frameworks."""

import importlib.metadata
import importlib.util
import os

from tf_lso import log

# Framework -> the oldest version that is supported, and the first that is not.
SUPPORTED = {
    "tensorflow": ((2, 16), (2, 22)),
    "keras": ((3, 0), (4, 0)),
    "tf_keras": ((2, 16), (2, 22)),
}

# Set to 1 to try a version outside the range, at one's own risk.
OVERRIDE = "TF_LSO_ANY_VERSION"

_INSTALL = (
    "Install one of the distributions that provide it, for instance "
    "`pip install tf-lso[tensorflow]` (GPU and CPU) or "
    "`pip install tf-lso[tensorflow-cpu]`."
)
MISSING = f"tf_lso needs TensorFlow, which is not installed. {_INSTALL}"


def require_tensorflow() -> None:
    """Raise a clear ImportError unless supported TensorFlow and Keras can be imported.

    TensorFlow is no hard requirement of the package, since several distributions
    provide it and a requirement on one of them would overwrite the user's.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise ImportError(MISSING, name="tensorflow")
    import tensorflow as tf

    check_version("tensorflow", tf.__version__)
    import keras

    check_version("keras", keras.__version__)


def tensorflow_uses_tf_keras() -> bool:
    """Whether `tf.keras` is tf_keras: TF_USE_LEGACY_KERAS in the environment decides.

    Raises:
      ImportError: if it is to be, and tf_keras is not installed.
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
    return tf.keras.Model is not keras.Model


def check_version(framework: str, version: str) -> None:
    """Raise a clear ImportError if a framework's version is outside the range.

    Args:
      framework: a key of `SUPPORTED`.
      version: its version, as `__version__` gives it.
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
    """Return the versions of a framework that are supported, as pip writes them."""
    oldest, beyond = (".".join(map(str, end)) for end in SUPPORTED[framework])
    return f">={oldest}, <{beyond}"


def require_tensorflow_backend() -> None:
    """Raise a clear error unless Keras 3 computes with TensorFlow."""
    import keras

    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise RuntimeError(
            "tf_lso scales losses of TensorFlow programs, but Keras uses the backend "
            f"{backend!r}. Set KERAS_BACKEND=tensorflow in the environment before "
            "Keras is imported."
        )
