"""Adapters to the families of optimizers: that of Keras 3, and two for each Keras 2."""

import functools
from typing import Any

import tensorflow as tf

from tf_lso.frameworks import environment, keras_versions, tf_private


@functools.cache
def families_of_package(package: str) -> tuple[Any, ...]:
    """Return the adapter classes of a package, or raise ImportError.

    Args:
      package: "keras" or "tf_keras".
    """
    if not keras_versions.is_keras2(package):
        from tf_lso.optimizers.families import keras3

        return (keras3.Keras3,)
    from tf_lso.optimizers.families import keras2, keras2_legacy

    public = keras_versions.public(package)
    environment.check_pair(tf.__version__, package, keras_versions.version(package))

    def adapter_of(cls, base):
        own = public.mixed_precision.LossScaleOptimizer
        bases = (tf_private.delegating_trackable(), base, own)
        members = {"package": package, "base": base, "bases": bases}
        return type(cls.__name__, (cls,), {"__doc__": cls.__doc__, **members})

    bases = keras_versions.optimizer_bases(package)
    return (
        adapter_of(keras2_legacy.Legacy, bases["legacy"]),
        adapter_of(keras2.Newer, bases["new"]),
    )


def family_of(value: Any) -> Any:
    """Return the adapter class for `value`, or None if it is not an optimizer.

    This does not import Keras: a program that has not imported a Keras has no optimizer of
    that Keras.
    """
    families = [f for p in keras_versions.imported() for f in families_of_package(p)]
    return next((f for f in families if isinstance(value, f.base)), None)
