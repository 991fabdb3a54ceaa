"""Scale a loss; unscale gradients, dense, sparse or missing."""

from typing import TypeAlias

import tensorflow as tf

from tf_lso.scaling import fast

# What optimizers accept as a gradient.
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None


def scale_loss(loss, scale):
    """Return `loss` multiplied by `scale`, in the dtype of `loss`.

    Args:
      loss: tensor or variable of any shape and dtype.
      scale: float32 scalar tensor.

    Returns:
      A tensor of the shape and dtype of `loss`. In float16 a product above 65504 is
      inf, as in TensorFlow 2.1-2.15.
    """
    return loss * tf.cast(scale, loss.dtype)


@fast.packed
def _divided(tensors, scale):
    results = []
    for values in tensors:
        # A float16 reciprocal of a scale of 2**25 or more is 0, and the reciprocal of 3
        # is off in the eighth digit of a float64: divide, and in a wide dtype.
        narrow = values.dtype in (tf.float16, tf.bfloat16)
        wide = tf.cast(values, tf.float32) if narrow else values
        results.append(tf.cast(wide / tf.cast(scale, wide.dtype), values.dtype))
    return results


def unscale_gradients(gradients, scale):
    """Return a list with each gradient divided by `scale`, of the same kind and dtype.

    Args:
      gradients: iterable of dense tensors, `tf.IndexedSlices` (which stay sparse), and
        None, which stays None.
      scale: float32 scalar tensor.
    """
    gradients = list(gradients)
    values = values_of([g for g in gradients if g is not None])
    divided = iter(_divided(values, tf.convert_to_tensor(scale)))
    return [g if g is None else _with_values(g, next(divided)) for g in gradients]


def _with_values(gradient, values):
    if not isinstance(gradient, tf.IndexedSlices):
        return values
    return tf.IndexedSlices(values, gradient.indices, dense_shape=gradient.dense_shape)


def overwrites(variable):
    """Whether the "gradient" of `variable` is in fact its next value.

    Such a value is never scaled. Keras 3's float8 layers have such variables, and Keras
    marks them.
    """
    return getattr(variable, "overwrite_with_gradient", False)


def unscale_scaled(gradients, variables, scale, is_unscaled):
    """Return a list of the gradients, with those that are scaled divided by `scale`.

    Args:
      gradients: list of gradients.
      variables: list of the variable of each gradient.
      scale: float32 scalar tensor.
      is_unscaled: callable, gradient -> whether it is unscaled.
    """
    scaled = [
        None if is_unscaled(g) or overwrites(v) else g
        for g, v in zip(gradients, variables)
    ]
    unscaled = unscale_gradients(scaled, scale)
    return [g if u is None else u for g, u in zip(gradients, unscaled)]


def values_of(gradients):
    """Return the tensor of each gradient; for slices, the tensor of their rows."""
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    return [v if isinstance(v, tf.Tensor) else tf.convert_to_tensor(v) for v in values]


def _in_tensors(slices):
    """Return `slices` with tensors inside; callers may pass lists, tuples or arrays."""

    def tensor(value, hint):
        return None if value is None else tf.convert_to_tensor(value, dtype_hint=hint)

    return tf.IndexedSlices(
        tensor(slices.values, tf.float32),
        tensor(slices.indices, tf.int64),
        tensor(slices.dense_shape, tf.int64),
    )


def with_dense_shape(gradient, variable):
    """Return `gradient`; slices that lack their dense shape get the variable's.

    `tf.IndexedSlices` may come without it, and Keras 3 optimizers need it.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    gradient = _in_tensors(gradient)
    if gradient.dense_shape is None:
        shape = tf.constant(list(variable.shape), gradient.indices.dtype)
        return tf.IndexedSlices(gradient.values, gradient.indices, dense_shape=shape)
    return gradient


@fast.packed
def _summed_rows(tensors):
    """Add up rows of equal indices: [rows, indices, ...] -> [sums, indices, ...]."""
    results = []
    for rows, indices in zip(tensors[::2], tensors[1::2]):
        if indices.shape.rank != 1:
            indices = tf.reshape(indices, [-1])
        # The first index is repeated: the optimizer calls `tf.unique` on the result
        # again, and XLA cannot compile that if the result has room for one index only.
        unique = tf.unique(tf.concat([indices, indices[:1]], axis=0))
        sums = tf.math.unsorted_segment_sum(
            rows, unique.idx[: tf.size(indices)], tf.size(unique.y)
        )
        results += [sums, unique.y]
    return results


def with_summed_rows(gradients):
    """Return a list of the gradients, with rows of equal indices of slices added up.

    The variable gets the sum of these rows. So the sum is what may overflow, and what
    Adam squares. The result has one row for each different index, and never the shape
    of the whole variable.
    """
    sparse = [_in_tensors(g) for g in gradients if isinstance(g, tf.IndexedSlices)]
    tensors = [tensor for g in sparse for tensor in (g.values, g.indices)]
    results = _summed_rows(tensors)
    summed = iter(
        tf.IndexedSlices(rows, indices, dense_shape=g.dense_shape)
        for g, rows, indices in zip(sparse, results[::2], results[1::2])
    )
    return [next(summed) if isinstance(g, tf.IndexedSlices) else g for g in gradients]
