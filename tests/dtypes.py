"""The float dtypes of gradients: what NumPy calls them, and their limits."""

import ml_dtypes
import numpy as np
import tensorflow as tf

DTYPES = {
    "float16": np.float16,
    "bfloat16": tf.bfloat16.as_numpy_dtype,  # before TensorFlow 2.13 one of its own
    "float32": np.float32,
    "float64": np.float64,
}


def limits(dtype):
    """The `finfo` of a dtype, by its name."""
    return ml_dtypes.finfo(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
