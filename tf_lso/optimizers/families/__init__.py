"""Find the adapter class for an optimizer.

All optimizers of a family share an adapter class. Keras 3 has one family. Each package of
Keras 2 has two families: the legacy optimizers and the newer optimizers.
"""

import functools
from typing import Any

import tensorflow as tf

from tf_lso.frameworks import environment, keras_versions
from tf_lso.optimizers.families import keras2, keras2_legacy


@functools.cache
def families_of_package(package: str) -> tuple[Any, ...]:
    """Return the adapter classes for "keras" or "tf_keras", or raise ImportError."""
    if not keras_versions.is_keras2(package):
        from tf_lso.optimizers.families import keras3

        return (keras3.Keras3,)
    environment.check_pair(tf.__version__, package, keras_versions.version(package))
    return (keras2_legacy.of_package(package), keras2.of_package(package))


def family_of(value: Any) -> Any:
    """Return the adapter class for an optimizer, or None. This function imports no Keras."""
    families = [f for p in keras_versions.imported() for f in families_of_package(p)]
    return next((f for f in families if isinstance(value, f.base)), None)
