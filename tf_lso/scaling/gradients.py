"""Scale a loss, and unscale gradients that are dense, sparse or None."""

import weakref
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from tf_lso.frameworks import graphs
from tf_lso.scaling import fast

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None


def scale_loss(loss, scale):
    """Return `loss * scale` in the dtype of `loss`, as TensorFlow 2.1-2.15 did."""
    return loss * tf.cast(scale, loss.dtype)


class Quotient(NamedTuple):
    """A dense gradient that is still to be divided: the gradient and its divisor.

    A division before the branch that applies the gradients would write its results to memory.
    A division inside the branch stands next to the update: the results are still in the
    processor's cache, and XLA divides and updates in one loop. For ResNet-50 under XLA, this
    lowers the relative cost (see `fast.py`) from 0.45-0.58 to 0.19-0.26.
    """

    dividend: tf.Tensor
    divisor: tf.Tensor

    def divided(self):
        """Add the division to the current graph, and return its result."""
        return _quotient(self.dividend, self.divisor)

    def reference(self):
        """Return a function that returns this quotient, or None if its tensors are deleted."""
        references = [weakref.ref(tensor) for tensor in self]

        def quotient():
            tensors = [reference() for reference in references]
            return None if any(t is None for t in tensors) else Quotient(*tensors)

        return quotient


def are_divided_late():
    """Return whether a step in the current context keeps its gradients as quotients."""
    is_alone = tf.distribute.get_strategy().num_replicas_in_sync == 1
    return is_alone and not tf.executing_eagerly()


def quotient_of(gradient, divisor):
    """Return the `Quotient` of a dense gradient, and None for slices, integers and None."""
    is_dense = isinstance(gradient, tf.Tensor) and gradient.dtype.is_floating
    return Quotient(gradient, divisor) if is_dense else None


def divided(gradients):
    """Replace each `Quotient` in a list of gradients by its result."""
    return [g.divided() if isinstance(g, Quotient) else g for g in gradients]


def _quotient(values, scale):
    # Divide in float32 or a wider dtype. Do not multiply by the reciprocal: in float16 the
    # reciprocal of 2**25 is 0, and a float32 reciprocal of 3 makes the eighth digit of a
    # float64 gradient wrong.
    wide = values.dtype
    if wide.is_integer:
        wide = tf.float64
    elif wide in (tf.float16, tf.bfloat16):
        wide = tf.float32
    return tf.cast(tf.cast(values, wide) / tf.cast(scale, wide), values.dtype)


@fast.packed
def _quotients(tensors, scale):
    return [_quotient(values, scale) for values in tensors]


def unscale_gradients(gradients, scale):
    """Divide each gradient by `scale`. Dtypes do not change, and slices stay slices."""
    gradients = list(gradients)
    if not gradients:
        return []
    values = values_of([g for g in gradients if g is not None])
    results = iter(_quotients(values, tf.convert_to_tensor(scale)))
    return [g if g is None else _with_values(g, next(results)) for g in gradients]


def _with_values(gradient, values):
    if not isinstance(gradient, tf.IndexedSlices):
        return values
    return tf.IndexedSlices(values, gradient.indices, dense_shape=gradient.dense_shape)


def attribute_of(variable, name, default=None):
    """Return the attribute `name` of a variable, or `default`.

    To find an attribute, a variable with copies on several replicas would read the value of
    each copy. So this function asks only the first copy.
    """
    return getattr(getattr(variable, "values", [variable])[0], name, default)


def overwrites(variable):
    """Return whether a variable's "gradient" is its next value, as in Keras 3's float8."""
    return attribute_of(variable, "overwrite_with_gradient", False)


def values_of(gradients):
    """Return one tensor for each gradient. For slices, the tensor contains only the rows."""
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    return [
        v
        if isinstance(v, tf.Tensor)
        else tf.convert_to_tensor(v, dtype_hint=tf.float32)
        for v in values
    ]


def real_vectors(tensors):
    """Return for each tensor a list of real floating-point vectors that hold its numbers."""
    # Callers reduce the vectors. Reducing a vector needs one constant, for the axis. Reducing a
    # tensor of unknown rank needs five operations, which compute the axes.
    shape, results = tf.constant([-1]), []
    for values in tensors:
        parts = [values]
        if values.dtype.is_complex:
            parts = [tf.math.real(values), tf.math.imag(values)]
        results.append([tf.reshape(p, shape) for p in parts if p.dtype.is_floating])
    return results


def _in_tensors(slices):
    # The fields of slices may be lists, tuples or arrays.
    def tensor(value, hint):
        return None if value is None else tf.convert_to_tensor(value, dtype_hint=hint)

    return tf.IndexedSlices(
        tensor(slices.values, tf.float32),
        tensor(slices.indices, tf.int64),
        tensor(slices.dense_shape, tf.int64),
    )


def with_dense_shape(gradient, variable):
    """Add the variable's shape to slices without a dense shape, because Keras 3 needs one."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    gradient = _in_tensors(gradient)
    if gradient.dense_shape is not None:
        return gradient
    shape = tf.constant(list(variable.shape), gradient.indices.dtype)
    return tf.IndexedSlices(gradient.values, gradient.indices, dense_shape=shape)


@fast.packed
def _summed_rows(tensors):
    rows, indices = tensors
    unique = tf.unique(tf.reshape(indices, [-1]))
    sums = tf.math.unsorted_segment_sum(rows, unique.idx, tf.size(unique.y))
    return [sums, unique.y]


def _summed_rows_in_xla(slices):
    """Return the rows and indices of `_summed_rows`, filled up with rows of zeros.

    XLA must know the number of rows at compile time. If `tf.unique` determines the number,
    XLA cannot compile some optimizers. The rows of zeros have indices outside of the
    variable, so XLA ignores these rows.
    """
    indices = tf.reshape(slices.indices, [-1])
    places, count = tf.unique(indices).idx, tf.size(indices)
    # If `tf.boolean_mask` chooses the rows, XLA knows only a bound on their number. It pads the
    # vector of indices up to this bound. Drop the places of the added elements.
    places = tf.where(tf.range(count) < count, places, -1)
    is_row = tf.range(count) <= tf.reduce_max(places)
    kept = tf.math.unsorted_segment_max(indices, places, count)
    shape = slices.dense_shape
    outside = indices.dtype.max if shape is None else tf.cast(shape[0], indices.dtype)
    sums = tf.math.unsorted_segment_sum(slices.values, places, count)
    return [sums, tf.where(is_row, kept, outside)]


def _with_summed_rows(slices):
    rows, indices = graphs.plain_or_compiled(
        lambda: _summed_rows([slices.values, slices.indices]),
        lambda: _summed_rows_in_xla(slices),
    )
    return tf.IndexedSlices(rows, indices, dense_shape=slices.dense_shape)


def with_summed_rows(gradients):
    """In slices, sum the rows with equal indices.

    An optimizer adds all rows with the same index to one row of the variable. So the check must
    read the sum of these rows, and Adam must square the sum.
    """
    return [
        _with_summed_rows(_in_tensors(g)) if isinstance(g, tf.IndexedSlices) else g
        for g in gradients
    ]
