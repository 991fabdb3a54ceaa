"""Keep AutoGraph away from methods."""

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

_Function = TypeVar("_Function", bound=Callable[..., Any])


def not_converted(function: _Function) -> _Function:
    """Keep AutoGraph away from a function.

    It would rewrite it in every tf.function that calls it, and find nothing to convert.
    """
    # With the type of the function, which TensorFlow's decorator does not keep.
    decorated: _Function = tf.autograph.experimental.do_not_convert(function)
    return decorated
