"""What tf_lso needs from the machine: the one room for versions of the frameworks."""

import importlib.util

OLDEST_TENSORFLOW = (2, 16)

_INSTALL = (
    "Install one of the distributions that provide it, for instance "
    "`pip install tf-lso[tensorflow]` (GPU and CPU) or "
    "`pip install tf-lso[tensorflow-cpu]`."
)


def require_tensorflow() -> None:
    """Raise a clear ImportError unless a supported TensorFlow can be imported.

    TensorFlow is no hard requirement of the package, since several distributions
    provide it and a requirement on one of them would overwrite the user's.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise ImportError(
            f"tf_lso needs TensorFlow, which is not installed. {_INSTALL}"
        )
    import tensorflow as tf

    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if version < OLDEST_TENSORFLOW:
        oldest = ".".join(map(str, OLDEST_TENSORFLOW))
        raise ImportError(
            f"tf_lso needs TensorFlow {oldest} or newer, but found {tf.__version__}. "
            f"{_INSTALL}"
        )


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
