"""Watch single operations: which first made a nonfinite value of finite ones."""

import contextlib

import numpy as np

from tf_lso import tf_private

# Operations that make inf of finite values without being too large for their dtype:
# they divide by zero, or take the logarithm of zero.
_SINGULAR = frozenset(
    ("Div", "FloorDiv", "Inv", "Log", "Pow", "RealDiv", "Reciprocal", "Rsqrt", "Xdivy")
)


@contextlib.contextmanager
def watched(tell):
    """Call `tell(overflowed)` for each operation that begins to be nonfinite.

    Args:
      tell: function of a bool, whether the operation made inf since its result is too
        large for the dtype.

    The outputs of a layer do not say it: where a product overflows, the softmax after
    it in the same layer makes NaN of it.
    """
    callbacks = tf_private.op_callbacks()

    def callback(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        del attrs, op_name
        if graph is None and not _finite(outputs) and _finite(inputs):
            overflowed = op_type not in _SINGULAR and any(
                np.isinf(array).any() for array in _arrays(outputs)
            )
            tell(overflowed)
        return outputs

    callbacks.add_op_callback(callback)
    try:
        yield
    finally:
        callbacks.remove_op_callback(callback)


def _arrays(tensors):
    for tensor in tensors:
        if tensor.dtype.is_floating:
            array = tensor.numpy()
            # NumPy does not know whether a bfloat16 is finite.
            known = array.dtype.kind == "f"
            yield array if known else array.astype(np.float32)


def _finite(tensors):
    return all(np.isfinite(array).all() for array in _arrays(tensors))
