"""Make loss-scale objects usable as tensors.

The loss scale of an optimizer was an object in TensorFlow 2.0-2.3 and a tensor in 2.4-2.15.
"""

import numpy as np
import tensorflow as tf

_VALUES = (bool, int, float, np.ndarray, np.number, tf.Tensor, tf.Variable)


class AsTensor:
    """A base class whose instances convert to the scalar tensor that `self()` returns.

    Instances have no arithmetic of their own. `tensor * scale` and `scale * tensor` work,
    because a tensor converts the other operand.
    """

    @property
    def dtype(self):
        """The dtype of the value, which is float32."""
        return tf.float32

    @property
    def shape(self):
        """The shape of the value, which is always `()`."""
        return tf.TensorShape(())

    def numpy(self):
        """Return the value as a NumPy number. Call this method only in eager mode."""
        return tf.convert_to_tensor(self(), tf.float32).numpy()

    def __array__(self, dtype=None, copy=None):
        del copy  # NumPy may ask for a copy, but each call returns a new array anyway.
        return np.asarray(self.numpy(), dtype)

    def __float__(self):
        return float(tf.convert_to_tensor(self(), tf.float32))

    def __format__(self, spec):
        return format(float(self), spec) if spec else str(self)

    # Compare the value with numbers and tensors. Python compares other objects by identity, as
    # in TensorFlow 2.0-2.3, because both methods return NotImplemented for them.

    def __eq__(self, other):
        if isinstance(other, _VALUES):
            return tf.equal(self, tf.cast(other, tf.float32))
        return NotImplemented

    def __ne__(self, other):
        if isinstance(other, _VALUES):
            return tf.not_equal(self, tf.cast(other, tf.float32))
        return NotImplemented

    # A class that defines `__eq__` must define `__hash__`, too. Loss scales hash by identity.
    __hash__ = object.__hash__


def _convert(scale, dtype=None, name=None, as_ref=False):
    del as_ref
    if dtype is not None and not tf.as_dtype(dtype).is_compatible_with(tf.float32):
        return NotImplemented
    return tf.convert_to_tensor(scale(), tf.float32, name=name)


tf.register_tensor_conversion_function(AsTensor, _convert)
