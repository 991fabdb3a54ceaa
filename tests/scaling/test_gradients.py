"""Scale losses and unscale gradients: dense gradients of all dtypes, and slices."""

import numpy as np
import pytest
import tensorflow as tf

from tests.dtypes import DTYPES, limits
from tests.families import CURRENT, wrapped
from tf_lso.scaling import fast
from tf_lso.scaling import gradients as gradients_lib

pytestmark = pytest.mark.core


def unscale_gradient(gradient, scale):
    return gradients_lib.unscale_gradients([gradient], tf.constant(scale))[0]


def unscale(values, scale):
    """Unscale an array, and return an array of the same dtype."""
    result = unscale_gradient(tf.constant(values), scale)
    assert result.dtype == values.dtype
    return result.numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 3.0, 8.0, 2.0**15, 2.0**25, 2.0**40, 0.25])
def test_unscaling_is_the_rounded_quotient(dtype, scale):
    values = [0.0, 1.0, -3.0, 1024.0, -15000.0, 0.001, np.nan, np.inf, -np.inf]
    values = np.array(values, DTYPES[dtype])
    expected = (values.astype(np.float64) / scale).astype(DTYPES[dtype])
    # `unscale` rounds a 16-bit quotient twice: in float32 and in the dtype. The result may
    # differ from the quotient that is rounded once, but only in the last bit.
    np.testing.assert_allclose(
        unscale(values, scale).astype(np.float64),
        expected.astype(np.float64),
        rtol=float(limits(dtype).eps),
        atol=float(limits(dtype).smallest_subnormal),
    )


@pytest.mark.parametrize(
    ("value", "scale"),
    [(32768.0, 2.0**25), (32768.0, 2.0**30), (65504.0, 2.0**25), (65504.0, 2.0**17)],
)
def test_a_float16_gradient_survives_a_scale_that_float16_has_no_reciprocal_of(
    value, scale
):
    unscaled = unscale(np.array([value], np.float16), scale)
    assert unscaled == np.float16(value / scale)
    assert unscaled > 0
    slices = tf.IndexedSlices(tf.constant([value], tf.float16), tf.constant([0]))
    assert unscale_gradient(slices, scale).values.numpy() == unscaled


def test_a_float32_gradient_is_divided_not_multiplied_by_a_reciprocal():
    values = np.arange(1, 2000, dtype=np.float32)
    np.testing.assert_array_equal(unscale(values, 3.0), values / np.float32(3.0))


def test_a_bfloat16_gradient_is_divided_by_a_scale_that_bfloat16_cannot_hold():
    """Rounding the scale 257 to bfloat16 would give 256, and the quotient 1."""
    unscaled = unscale_gradient(tf.constant(256.0, tf.bfloat16), 257.0)
    assert float(unscaled) == 1 - 2.0**-8


@pytest.mark.parametrize("dtype", [tf.complex64, tf.complex128])
def test_complex_gradients_are_unscaled(dtype):
    unscaled = unscale_gradient(tf.constant([8 + 16j], dtype), 8.0)
    assert unscaled.dtype == dtype
    assert complex(unscaled[0]) == 1 + 2j


def test_arrays_lists_and_variables_are_unscaled_and_none_stays_none():
    gradients = [None, np.array([8.0], np.float32), tf.Variable([8.0]), [8.0]]
    unscaled = gradients_lib.unscale_gradients(iter(gradients), tf.constant(8.0))
    assert isinstance(unscaled, list)
    assert unscaled[0] is None
    assert [float(gradient[0]) for gradient in unscaled[1:]] == [1.0, 1.0, 1.0]
    assert gradients_lib.unscale_gradients([], tf.constant(8.0)) == []


def test_more_gradients_than_one_graph_divides_are_unscaled():
    gradients = [tf.constant(8.0 * number) for number in range(fast.MOST + 2)]
    unscaled = gradients_lib.unscale_gradients(gradients, tf.constant(8.0))
    assert list(map(float, unscaled)) == list(range(fast.MOST + 2))


class TestSlices:
    def slices(self, dtype="float32", shape=(5, 2), index="int64"):
        rows = tf.constant([[8.0, 16.0], [24.0, 32.0]], dtype)
        shape = None if shape is None else tf.constant(shape)
        return tf.IndexedSlices(rows, tf.constant([3, 3], index), shape)

    @pytest.mark.parametrize("shape", [None, (5, 2)])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_unscaling_changes_only_the_rows(self, dtype, shape):
        slices = self.slices(dtype, shape)
        unscaled = unscale_gradient(slices, 8.0)
        assert unscaled.values.dtype == dtype
        assert unscaled.indices is slices.indices
        assert unscaled.dense_shape is slices.dense_shape
        assert unscaled.values.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]

    @pytest.mark.parametrize("shape", [None, (5, 2)])
    @pytest.mark.parametrize("index", ["int32", "int64"])
    def test_with_dense_shape_adds_the_shape_of_the_variable(self, shape, index):
        slices = self.slices(shape=shape, index=index)
        variable = tf.Variable(tf.zeros((5, 2)))
        result = gradients_lib.with_dense_shape(slices, variable)
        assert result.dense_shape.numpy().tolist() == [5, 2]
        # An existing shape keeps its dtype. A new shape has the dtype of the indices.
        assert result.dense_shape.dtype == ("int32" if shape else index)
        assert result.values.numpy().tolist() == [[8.0, 16.0], [24.0, 32.0]]

    def test_rows_with_equal_indices_are_summed(self):
        rows = tf.constant([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
        # A dense tensor of this shape would not fit into memory.
        shape = tf.constant([10**13, 2], tf.int64)
        indices = tf.constant([10**12, 2, 10**12], tf.int64)
        slices = tf.IndexedSlices(rows, indices, shape)
        (summed,) = gradients_lib.with_summed_rows([slices])
        rows = summed.values.numpy().tolist()
        sums = dict(zip(summed.indices.numpy(), rows, strict=True))
        assert sums == {2: [10.0, 20.0], 10**12: [101.0, 202.0]}
        assert len(summed.indices) == 2
        assert summed.dense_shape.numpy().tolist() == [10**13, 2]

    def test_summing_rows_does_not_change_dense_gradients_or_need_a_dense_shape(self):
        dense, slices = tf.constant([1.0]), self.slices(shape=None)
        first, summed, last = gradients_lib.with_summed_rows([dense, slices, dense])
        assert first is dense
        assert last is dense
        assert summed.dense_shape is None
        assert summed.values.numpy().tolist() == [[32.0, 48.0]]

    def test_rows_of_more_slices_than_one_operation_sums(self):
        """One operation sums the rows of at most 32 slices: 64 tensors."""
        values = [[32.0, 48.0], [32.0, 48.0]]
        slices = [self.slices()] * 39 + [tf.IndexedSlices(values, tf.constant([3, 4]))]
        *summed, last = gradients_lib.with_summed_rows(slices)
        assert [each.values.numpy().tolist() for each in summed] == [[[32, 48]]] * 39
        assert last.values.numpy().tolist() == values
        assert last.indices.numpy().tolist() == [3, 4]


# --- The same functions as methods of an optimizer. tests/golden compares which kinds of losses
# and gradients these methods accept.


@pytest.mark.parametrize("dtype", DTYPES)
def test_scale_loss_is_float32_or_wider(dtype):
    loss = tf.constant(60_000.0, dtype)
    scaled = wrapped(CURRENT).scale_loss(loss)
    assert scaled.dtype == ("float64" if dtype == "float64" else "float32")
    assert float(scaled) == 8.0 * float(loss)
    assert float(wrapped(CURRENT).scale_loss(1.5)) == 12.0


@pytest.mark.parametrize("loss", [3, np.int64(3), tf.constant(3), True])
def test_scale_loss_of_a_whole_number_is_float32(loss):
    scaled = wrapped(CURRENT, scale=0.5).scale_loss(loss)
    assert (scaled.dtype, float(scaled)) == (tf.float32, 0.5 * float(loss))


def test_a_float16_loss_that_overflows_when_scaled_warns_once(caplog):
    optimizer = wrapped(CURRENT, scale=2.0)
    optimizer.get_scaled_loss(tf.constant(4.0, tf.float16))  # 8 fits into float16
    optimizer.get_scaled_loss(tf.constant(1e30))
    optimizer.get_scaled_loss(tf.constant(np.inf, tf.float16))
    assert "float16" not in caplog.text
    optimizer = wrapped(CURRENT, scale=2.0**15)
    for _ in range(2):
        optimizer.get_scaled_loss(tf.constant(4.0, tf.float16))
    assert caplog.text.count("float16 loss") == 1


# The rows, indices and dense shape of slices.
_PARTS = {
    "tuples": ([[1.0], [2.0], [3.0]], (0, 2, 2), (3, 1)),
    "whole numbers": ([[1], [2], [3]], [0, 2, 2], [3, 1]),
    "arrays": (np.float32([[1], [2], [3]]), np.array([0, 2, 2]), np.array([3, 1])),
    "no shape": (tf.constant([[1.0], [2.0], [3.0]]), [0, 2, 2], None),
    "no rows": (tf.zeros([0, 1]), [], [3, 1]),
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    "family, parts",
    [
        *((CURRENT, parts) for parts in _PARTS),
        ("legacy", "arrays"),
        ("new", "no shape"),
    ],
)
def test_parts_of_slices_may_be_lists_tuples_or_arrays(family, parts, traced):
    """`tf.IndexedSlices` itself does not convert its parts to tensors."""
    x = tf.Variable([[0.0], [0.0], [0.0]])
    optimizer = wrapped(family, scale=8)
    optimizer.build([x])
    slices = tf.IndexedSlices(*_PARTS[parts])

    def take_a_step_of_each_protocol():
        assert optimizer.check_finite([slices]) is not None
        unscaled = optimizer.get_unscaled_gradients([slices])
        optimizer.apply_gradients(zip(unscaled, [x]))
        optimizer.scale_loss(tf.constant(1.0))
        optimizer.apply_gradients([(slices, x)])

    step = take_a_step_of_each_protocol
    (tf.function(step) if traced else step)()
    sums = [0.0, 0.0, 0.0] if parts == "no rows" else [1.0, 0.0, 5.0]
    # Two steps with a learning rate of 0.1, and gradients that are divided by 8.
    np.testing.assert_allclose(x.numpy()[:, 0], np.multiply(sums, -0.2 / 8), rtol=1e-6)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    "scale, expected", [(0.5, 6), (2.0, 1), (3.0, 1), (2.0**40, 0)]
)
def test_integers_are_divided_by_the_scale_itself(scale, expected, traced):
    """A scale of 0.5, which would be 0 as an integer, gave the smallest int32."""

    def unscaled(gradient):
        return gradients_lib.unscale_gradients([gradient], tf.constant(scale))[0]

    result = (tf.function(unscaled) if traced else unscaled)(tf.constant(3))
    assert (result.dtype, int(result)) == (tf.int32, expected)


def test_an_integer_that_float32_cannot_represent_stays_exact():
    whole = tf.constant([2**40 + 1], tf.int64)
    (divided,) = gradients_lib.unscale_gradients([whole], tf.constant(1.0))
    assert divided.numpy().tolist() == [2**40 + 1]


def test_a_float16_loss_is_not_checked_after_the_warning(monkeypatch):
    """The check waits for the device."""
    optimizer = wrapped(CURRENT, scale=2.0**15)
    loss, checks, reduce_any = tf.constant(4.0, tf.float16), [], tf.reduce_any

    def counted(*args, **kwargs):
        checks.append(args)
        return reduce_any(*args, **kwargs)

    monkeypatch.setattr(tf, "reduce_any", counted)
    for _ in range(3):
        optimizer.get_scaled_loss(loss)
    assert len(checks) == 1
