"""Make loss-scale objects usable as tensors.

The loss scale of an optimizer was an object in TensorFlow 2.0-2.3 and a tensor in 2.4-2.15.
"""

import operator

import numpy as np
import tensorflow as tf

_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_COMPARISONS = ("lt", "le", "gt", "ge")


def _on_value(function):
    return lambda self: function(self())


class AsTensor:
    """A base class with the operators and attributes of a scalar tensor.

    The operators and attributes act on the value that `self()` returns.
    """

    # A high `__array_priority__` makes NumPy leave `array * scale` to this class.
    __array_priority__ = 1000

    @property
    def dtype(self):
        """The dtype of the value. For a loss scale the dtype is float32."""
        return self().dtype

    @property
    def shape(self):
        """The shape of the value, which is always `()`."""
        return tf.TensorShape(())

    def numpy(self):
        """Return the value as a NumPy number. Call this method only in eager mode."""
        return tf.convert_to_tensor(self()).numpy()

    def __array__(self, dtype=None, copy=None):
        del copy  # NumPy may ask for a copy, but each call returns a new array anyway.
        return np.asarray(self.numpy(), dtype)

    def __bool__(self):
        # Old programs write `if policy.loss_scale:` to ask whether a policy has a loss scale.
        return True

    def __format__(self, spec):
        return format(float(self), spec) if spec else str(self)

    __float__, __int__ = _on_value(float), _on_value(int)
    __neg__, __abs__ = _on_value(operator.neg), _on_value(abs)

    def __eq__(self, other):
        if isinstance(other, (bool, int, float, np.ndarray, np.number, tf.Tensor)):
            return tf.equal(self(), tf.cast(other, self.dtype))
        # If `__eq__` returns NotImplemented, Python compares the objects by identity.
        # TensorFlow 2.0-2.3 compared loss scales by identity, too.
        return NotImplemented

    # A class that defines `__eq__` must define `__hash__`, too. Loss scales hash by identity.
    __hash__ = object.__hash__


def _add_operator(name):
    function = getattr(operator, name)

    def value(other):
        return other() if isinstance(other, AsTensor) else other

    setattr(AsTensor, f"__{name}__", lambda self, x: function(self(), value(x)))
    if name in _ARITHMETIC:
        setattr(AsTensor, f"__r{name}__", lambda self, x: function(value(x), self()))


for _name in (*_ARITHMETIC, *_COMPARISONS):
    _add_operator(_name)


def _convert(scale, dtype=None, name=None, as_ref=False):
    del as_ref
    value = tf.convert_to_tensor(scale(), name=name)
    if dtype is not None and not tf.as_dtype(dtype).is_compatible_with(value.dtype):
        return NotImplemented
    return value


tf.register_tensor_conversion_function(AsTensor, _convert)
