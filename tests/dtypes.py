"""The NumPy types and the numeric limits of the float dtypes of gradients."""

import types

import numpy as np
import tensorflow as tf

DTYPES = {
    "float16": np.float16,
    "bfloat16": tf.bfloat16.as_numpy_dtype,  # TensorFlow's own NumPy type before 2.13
    "float32": np.float32,
    "float64": np.float64,
}

# NumPy does not have the limits of bfloat16. A bfloat16 has 8 bits for the exponent, like a
# float32, and 7 bits for the fraction.
_BFLOAT16 = types.SimpleNamespace(
    max=np.float32((2 - 2.0**-7) * 2.0**127),
    min=np.float32((2.0**-7 - 2) * 2.0**127),
    tiny=np.float32(2.0**-126),
    smallest_subnormal=np.float32(2.0**-133),
    eps=np.float32(2.0**-7),
)


def limits(dtype):
    """Return the limits of the dtype with this name, as `numpy.finfo` does."""
    return _BFLOAT16 if dtype == "bfloat16" else np.finfo(dtype)
