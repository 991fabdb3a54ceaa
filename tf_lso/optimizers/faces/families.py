"""The face of each family of optimizers: of Keras 3, and of each package of Keras 2."""

import abc
import functools
import types
from typing import Any

import tensorflow as tf

from tf_lso import environment, kerases
from tf_lso.optimizers.faces import keras2_legacy, keras2_new


@functools.cache
def of_package(package: str) -> tuple[type, ...]:
    """Return the faces of the families of a package, "keras" or "tf_keras".

    Raises:
      ImportError: if tf_lso does not support the version of the package.
    """
    if not kerases.is_keras2(package):
        from tf_lso.optimizers.faces import keras3

        return (keras3.Keras3Face,)
    keras = kerases.public(package)
    environment.check_pair(tf.__version__, package, kerases.version(package))
    return tuple(
        _bound(face, package, keras)
        for face in (keras2_legacy.LegacyFace, keras2_new.NewFace)
    )


def _bound(face: Any, package: str, keras: Any) -> type:
    """Return a face of Keras 2 on the classes of a package."""
    base, wrapper = face._base_in(keras), keras.mixed_precision.LossScaleOptimizer

    # Keras 2's own wrapper has a metaclass, which `abc` lacks.
    meta: Any = type("Meta", (type(wrapper), abc.ABCMeta), {})
    namespace = {
        "__module__": face.__module__,
        "__doc__": face.__doc__,
        "_base": base,
        "_package": package,
    }
    return types.new_class(
        face.__name__,
        (face, base, wrapper),
        {"metaclass": meta},
        lambda body: body.update(namespace),
    )


def of(value: Any) -> type | None:
    """Return the face that serves an optimizer, or None if `value` is none.

    This imports no Keras: a program that has not imported one has no optimizer of it.
    """
    faces = [face for package in kerases.imported() for face in of_package(package)]
    return next((face for face in faces if isinstance(value, face._base)), None)  # type: ignore[attr-defined]
