"""Which version `keras` is of, without an import of it."""

import importlib.metadata


def _minor():
    try:
        return ".".join(importlib.metadata.version("keras").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return "3"  # then the tests say that it is missing


# Its minor version, such as "3.0".
KERAS = _minor()
HAS_KERAS3 = int(KERAS.split(".")[0]) >= 3
