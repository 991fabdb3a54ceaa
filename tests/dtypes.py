"""The float dtypes of gradients: what NumPy calls them, and their limits."""

import types

import numpy as np
import tensorflow as tf

DTYPES = {
    "float16": np.float16,
    "bfloat16": tf.bfloat16.as_numpy_dtype,  # before TensorFlow 2.13 one of its own
    "float32": np.float32,
    "float64": np.float64,
}

# NumPy has none of these. Eight bits of exponent as in float32, seven of fraction.
_BFLOAT16 = types.SimpleNamespace(
    max=np.float32((2 - 2.0**-7) * 2.0**127),
    min=np.float32((2.0**-7 - 2) * 2.0**127),
    tiny=np.float32(2.0**-126),
    smallest_subnormal=np.float32(2.0**-133),
    eps=np.float32(2.0**-7),
)


def limits(dtype):
    """The `finfo` of a dtype, by its name."""
    return _BFLOAT16 if dtype == "bfloat16" else np.finfo(dtype)
