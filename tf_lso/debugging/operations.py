"""Watch single operations: which first made a nonfinite value of finite ones."""

import contextlib

from tf_lso import tf_private
from tf_lso.debugging import statistics

# Operations that make inf of finite values without being too large for their dtype:
# they divide by zero, or take the logarithm of zero.
_SINGULAR = frozenset(
    ("Div", "FloorDiv", "Inv", "Log", "Pow", "RealDiv", "Reciprocal", "Rsqrt", "Xdivy")
)


@contextlib.contextmanager
def watched(tell):
    """Call `tell(overflowed)` for each operation that makes nonfinite values of finite ones.

    Args:
      tell: function of a bool, whether the operation made inf since its result is too
        large for the dtype.

    The outputs of a layer do not say it: where a product overflows, the softmax after
    it in the same layer makes NaN of it.
    """
    callbacks = tf_private.op_callbacks()

    def callback(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        del attrs, op_name
        if graph is None:
            made = values_of(outputs)
            if made.nonfinite and not values_of(inputs).nonfinite:
                tell(made.infinite > 0 and op_type not in _SINGULAR)
        return outputs

    callbacks.add_op_callback(callback)
    try:
        yield
    finally:
        callbacks.remove_op_callback(callback)


def values_of(tensors):
    """Return the `Values` of those tensors together that are of floating point."""
    arrays = [tensor.numpy() for tensor in tensors if tensor.dtype.is_floating]
    return statistics.values_of(*arrays)
