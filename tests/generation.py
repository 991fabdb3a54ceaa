"""Find out which versions of Keras are installed, without importing Keras."""

import importlib.metadata
import importlib.util

import pytest


def _minor():
    try:
        return ".".join(importlib.metadata.version("keras").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return "3"  # the tests report that Keras is missing


# The minor version of the package `keras`, such as "3.0".
KERAS = _minor()
HAS_KERAS3 = int(KERAS.split(".")[0]) >= 3


def limit(reason, *versions):
    """Mark a test that fails because some versions of Keras cannot do something.

    Args:
      reason: str, what these versions cannot do. The table of supported versions shows this
        text.
      *versions: str, minor versions of the package `keras`, such as "3.0".
    """
    return pytest.mark.xfail(KERAS in versions, reason=reason, strict=True)


# The limits of tests in several files.
NO_CHECKPOINT = limit(
    "checkpoints and SavedModels of TensorFlow accept no optimizer of this Keras", "3.0"
)
NO_WRAPPED_H5 = limit(
    "this Keras cannot write an .h5 file with a wrapped optimizer", "3.0"
)
NO_INT = limit("`int()` and `float()` take no variable of this Keras", "3.0")
NO_LAMB = limit("this Keras has no optimizer `Lamb`", "3.0")

HAS_TF_KERAS = importlib.util.find_spec("tf_keras") is not None
needs_tf_keras = pytest.mark.skipif(
    not HAS_TF_KERAS, reason="tf_keras is not installed"
)

# With this value of TF_USE_LEGACY_KERAS, `tf.keras` is Keras 2. TensorFlow 2.12-2.15 install
# Keras 2, and 2.15 fails if the variable chooses a tf_keras that is not installed.
LEGACY_KERAS = "1" if HAS_TF_KERAS else "0"

# The arguments with which `save` writes a .keras file as a zip file. Without them, Keras 2.12
# writes an HDF5 file.
ZIPPED = {"save_format": "keras_v3"} if KERAS == "2.12" else {}

# The argument `default` for `json.dumps` of configs. The Keras 2 of TensorFlow 2.12-2.15 puts
# NumPy numbers into configs.
AS_NUMBER = None if HAS_KERAS3 else float
