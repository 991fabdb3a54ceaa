"""Scale a loss, and unscale gradients that are dense, sparse or None."""

from typing import TypeAlias

import tensorflow as tf

from tf_lso.frameworks import graphs
from tf_lso.scaling import fast

# The types that optimizers accept as a gradient.
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None


def scale_loss(loss, scale):
    """Return `loss * scale` in the dtype of `loss`, which may have any shape."""
    # In float16 a product above 65504 is inf, as in TensorFlow 2.1-2.15.
    return loss * tf.cast(scale, loss.dtype)


@fast.packed
def _divided(tensors, scale):
    results = []
    for values in tensors:
        # Divide in float32 or wider, and do not multiply by the reciprocal: in float16 the
        # reciprocal of 2**25 is 0, and a float32 reciprocal of 3 is wrong in the eighth
        # digit of a float64 gradient.
        narrow = values.dtype in (tf.float16, tf.bfloat16)
        wide = tf.cast(values, tf.float32) if narrow else values
        results.append(tf.cast(wide / tf.cast(scale, wide.dtype), values.dtype))
    return results


def unscale_gradients(gradients, scale):
    """Return a list with each gradient divided by `scale`, of the same kind and dtype.

    `tf.IndexedSlices` stay sparse, and None stays None.
    """
    gradients = list(gradients)
    values = values_of([g for g in gradients if g is not None])
    divided = iter(_divided(values, tf.convert_to_tensor(scale)))
    return [g if g is None else _with_values(g, next(divided)) for g in gradients]


def _with_values(gradient, values):
    if not isinstance(gradient, tf.IndexedSlices):
        return values
    return tf.IndexedSlices(values, gradient.indices, dense_shape=gradient.dense_shape)


def attribute_of(variable, name, default=None):
    """Return an attribute of a variable, or of its first copy if it has several.

    Otherwise a variable with several copies would read the value of each copy to find the
    attribute.
    """
    return getattr(getattr(variable, "values", [variable])[0], name, default)


def overwrites(variable):
    """Return whether the "gradient" of `variable` is its next value, which is not scaled."""
    # The float8 layers of Keras 3 have such variables and mark them by this attribute.
    return attribute_of(variable, "overwrite_with_gradient", False)


def values_of(gradients):
    """Return a list with one tensor for each gradient. For slices, this tensor is the rows."""
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    return [v if isinstance(v, tf.Tensor) else tf.convert_to_tensor(v) for v in values]


def real_vectors(tensors):
    """Return for each tensor a list of its numbers as real floating-point vectors.

    A complex tensor has two vectors, and a tensor of integers has none.
    """
    # Reducing a vector needs one constant for the axis. Reducing a tensor of unknown rank
    # needs five operations that compute the axes.
    shape, results = tf.constant([-1]), []
    for values in tensors:
        parts = [values]
        if values.dtype.is_complex:
            parts = [tf.math.real(values), tf.math.imag(values)]
        results.append([tf.reshape(p, shape) for p in parts if p.dtype.is_floating])
    return results


def _in_tensors(slices):
    """Return `slices` with its lists, tuples or arrays converted to tensors."""

    def tensor(value, hint):
        return None if value is None else tf.convert_to_tensor(value, dtype_hint=hint)

    return tf.IndexedSlices(
        tensor(slices.values, tf.float32),
        tensor(slices.indices, tf.int64),
        tensor(slices.dense_shape, tf.int64),
    )


def with_dense_shape(gradient, variable):
    """Return `gradient`. Slices without a shape get the variable's, which Keras 3 needs."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    gradient = _in_tensors(gradient)
    if gradient.dense_shape is not None:
        return gradient
    shape = tf.constant(list(variable.shape), gradient.indices.dtype)
    return tf.IndexedSlices(gradient.values, gradient.indices, dense_shape=shape)


@fast.packed
def _summed_rows(tensors):
    """Add up rows of equal indices: [rows, indices, ...] -> [sums, indices, ...]."""
    results = []
    for rows, indices in zip(tensors[::2], tensors[1::2]):
        if indices.shape.rank != 1:
            indices = tf.reshape(indices, [-1])
        unique = tf.unique(indices)
        sums = tf.math.unsorted_segment_sum(rows, unique.idx, tf.size(unique.y))
        results += [sums, unique.y]
    return results


def _with_summed_rows_in_xla(slices):
    """Return slices with as many rows as `slices`: first the sums, then rows of zeros.

    XLA must know the number of rows when it compiles, and it cannot compile some optimizers
    if `tf.unique` determines the number. The indices of the zero rows are outside of the
    variable, so XLA ignores them.
    """
    indices = tf.reshape(slices.indices, [-1])
    places, count = tf.unique(indices).idx, tf.size(indices)
    is_row = tf.range(count) <= tf.reduce_max(places)
    kept = tf.math.unsorted_segment_max(indices, places, count)
    shape = slices.dense_shape
    outside = indices.dtype.max if shape is None else tf.cast(shape[0], indices.dtype)
    sums = tf.math.unsorted_segment_sum(slices.values, places, count)
    return tf.IndexedSlices(sums, tf.where(is_row, kept, outside), shape)


def with_summed_rows(gradients):
    """Return a list of the gradients, in which rows with equal indices are summed.

    The variable receives the sum of such rows. So the sum must be finite, and it is the sum
    that Adam squares. The result has one row for each different index. It is never a dense
    tensor of the shape of the variable.
    """
    sparse = [_in_tensors(g) for g in gradients if isinstance(g, tf.IndexedSlices)]
    if graphs.in_xla():
        summed = map(_with_summed_rows_in_xla, sparse)
    else:
        results = _summed_rows([t for g in sparse for t in (g.values, g.indices)])
        summed = (
            tf.IndexedSlices(rows, indices, dense_shape=g.dense_shape)
            for g, rows, indices in zip(sparse, results[::2], results[1::2])
        )
    return [next(summed) if isinstance(g, tf.IndexedSlices) else g for g in gradients]
