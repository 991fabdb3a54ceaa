"""Which Kerases are there, without an import of them."""

import importlib.metadata
import importlib.util

import pytest


def _minor():
    try:
        return ".".join(importlib.metadata.version("keras").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return "3"  # then the tests say that it is missing


# Its minor version, such as "3.0".
KERAS = _minor()
HAS_KERAS3 = int(KERAS.split(".")[0]) >= 3


def limit(reason, *versions):
    """Mark a test that fails by what these versions of Keras themselves cannot do.

    Args:
      reason: str, what they cannot do. The table of supported versions shows it.
      *versions: str, minor versions of the package `keras`, such as "3.0".
    """
    return pytest.mark.xfail(KERAS in versions, reason=reason, strict=True)


HAS_TF_KERAS = importlib.util.find_spec("tf_keras") is not None
needs_tf_keras = pytest.mark.skipif(
    not HAS_TF_KERAS, reason="tf_keras is not installed"
)

# What makes `save` write a .keras file that is a zip file: in 2.12 it is an .h5 file.
ZIPPED = {"save_format": "keras_v3"} if KERAS == "2.12" else {}

# The `default` of `json.dumps`: Keras 2 of TensorFlow 2.12-2.15 puts numbers of NumPy into
# configs.
AS_NUMBER = None if HAS_KERAS3 else float
