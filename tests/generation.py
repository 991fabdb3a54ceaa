"""Which generation `keras` is of, without an import of it."""

import importlib.metadata


def _has_keras3():
    try:
        return int(importlib.metadata.version("keras").split(".")[0]) >= 3
    except importlib.metadata.PackageNotFoundError:
        return True  # then the tests say that it is missing


HAS_KERAS3 = _has_keras3()
