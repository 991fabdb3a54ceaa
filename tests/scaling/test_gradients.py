"""Scaling losses and unscaling gradients, in every dtype and kind."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dtypes import DTYPES, limits
from tests.families import FAMILIES, wrapped
from tf_lso.scaling import gradients as gradients_lib

pytestmark = pytest.mark.core


def unscale_gradient(gradient, scale):
    return gradients_lib.unscale_gradients([gradient], tf.constant(scale))[0]


def unscale(values, scale):
    result = unscale_gradient(tf.constant(values), scale)
    assert result.dtype == values.dtype
    return result.numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 3.0, 8.0, 2.0**15, 2.0**25, 2.0**40, 0.25])
def test_unscaling_is_the_rounded_quotient(dtype, scale):
    values = np.array([0.0, 1.0, -3.0, 1024.0, -15000.0, 0.001], DTYPES[dtype])
    expected = (values.astype(np.float64) / scale).astype(DTYPES[dtype])
    # One rounding in float32 and one in the dtype differ from one alone in the last bit.
    got, info = unscale(values, scale).astype(np.float64), limits(dtype)
    least = {"rtol": float(info.eps), "atol": float(info.smallest_subnormal)}
    np.testing.assert_allclose(got, expected.astype(np.float64), **least)


@pytest.mark.parametrize(
    ("value", "scale"),
    [(32768.0, 2.0**25), (32768.0, 2.0**30), (65504.0, 2.0**25), (65504.0, 2.0**17)],
)
def test_a_float16_gradient_survives_a_scale_that_float16_has_no_reciprocal_of(
    value, scale
):
    got = unscale(np.array([value], np.float16), scale)
    assert got == np.float16(value / scale) and got > 0
    slices = tf.IndexedSlices(tf.constant([value], tf.float16), tf.constant([0]))
    assert unscale_gradient(slices, scale).values.numpy() == got


def test_a_float64_gradient_is_divided_in_float64():
    value = np.array([1.0, np.pi, 1e-300, 1e300])
    np.testing.assert_array_equal(unscale(value, 3.0), value / 3.0)


def test_a_float32_gradient_is_divided_not_multiplied_by_a_reciprocal():
    values = np.arange(1, 2000, dtype=np.float32)
    np.testing.assert_array_equal(unscale(values, 3.0), values / np.float32(3.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_no_number_stays_so(dtype):
    values = [np.nan, np.inf, -np.inf, 1.0]
    got = unscale(np.array(values, DTYPES[dtype]), 8.0)
    assert str(got.astype(np.float64).tolist()) == "[nan, inf, -inf, 0.125]"


@settings(max_examples=200, deadline=None)
@given(value=st.floats(-(2.0**90), 2.0**90, width=32), power=st.integers(0, 30))
def test_a_power_of_two_is_undone_exactly(value, power):
    scale = tf.constant(2.0**power)
    if abs(value) > 2.0**-90:
        scaled = gradients_lib.scale_loss(tf.constant(value, tf.float32), scale)
        assert float(unscale_gradient(scaled, scale)) == value


@pytest.mark.parametrize("dtype", [tf.complex64, tf.complex128])
def test_complex_gradients_are_unscaled(dtype):
    got = unscale_gradient(tf.constant([8 + 16j], dtype), 8.0)
    assert (got.dtype, complex(got[0])) == (dtype, 1 + 2j)


def test_what_converts_to_a_tensor_is_unscaled_and_none_stays_none():
    gradients = [None, np.array([8.0], np.float32), tf.Variable([8.0]), [8.0]]
    got = gradients_lib.unscale_gradients(iter(gradients), tf.constant(8.0))
    assert isinstance(got, list)
    assert [g if g is None else float(g[0]) for g in got] == [None, 1.0, 1.0, 1.0]
    assert gradients_lib.unscale_gradients([], tf.constant(8.0)) == []


class TestSlices:
    def slices(self, dtype="float32", shape=(5, 2), index="int64"):
        rows = tf.constant([[8.0, 16.0], [24.0, 32.0]], dtype)
        shape = None if shape is None else tf.constant(shape)
        return tf.IndexedSlices(rows, tf.constant([3, 3], index), shape)

    @pytest.mark.parametrize("shape", [None, (5, 2)])
    @pytest.mark.parametrize("index", ["int32", "int64"])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_stay_slices_of_their_dtype_indices_and_shape(self, dtype, index, shape):
        before = self.slices(dtype, shape, index)
        got = unscale_gradient(before, 8.0)
        assert got.values.dtype == dtype
        assert got.indices is before.indices
        assert got.dense_shape is before.dense_shape
        assert got.values.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]

    @pytest.mark.parametrize("shape", [None, (5, 2)])
    @pytest.mark.parametrize("index", ["int32", "int64"])
    def test_get_the_dense_shape_of_their_variable(self, shape, index):
        before = self.slices(shape=shape, index=index)
        got = gradients_lib.with_dense_shape(before, tf.Variable(tf.zeros((5, 2))))
        assert got.dense_shape.numpy().tolist() == [5, 2]
        assert got.dense_shape.dtype == ("int32" if shape else index)
        assert got.values.numpy().tolist() == [[8.0, 16.0], [24.0, 32.0]]

    def test_are_summed_to_one_row_an_index(self):
        rows = tf.constant([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
        shape = tf.constant([10**13, 2], tf.int64)  # which has no row in memory
        indices = tf.constant([10**12, 2, 10**12], tf.int64)
        slices = tf.IndexedSlices(rows, indices, shape)
        (got,) = gradients_lib.with_summed_rows([slices])
        found = zip(got.indices.numpy(), got.values.numpy().tolist(), strict=True)
        assert sorted(found) == [(2, [10.0, 20.0]), (10**12, [101.0, 202.0])]
        assert got.dense_shape.numpy().tolist() == [10**13, 2]

    def test_alone_are_summed_and_may_lack_the_dense_shape(self):
        gradient, slices = tf.constant([1.0]), self.slices(shape=None)
        got = gradients_lib.with_summed_rows([gradient, slices, gradient])
        assert got[0] is gradient and got[2] is gradient
        assert got[1].dense_shape is None
        assert got[1].values.numpy().tolist() == [[32.0, 48.0]]


def test_a_dense_gradient_gets_no_dense_shape():
    for gradient in (tf.constant([1.0]), None):
        assert gradients_lib.with_dense_shape(gradient, tf.Variable([0.0])) is gradient


# --- Through the optimizers; the kinds of losses and gradients are recorded in tests/golden.


@pytest.mark.parametrize("dtype", DTYPES)
def test_scale_loss_is_float32_or_wider(family, dtype):
    got = wrapped(family).scale_loss(tf.constant(60_000.0, dtype))
    assert got.dtype == ("float64" if dtype == "float64" else "float32")
    assert float(got) == 8.0 * float(tf.constant(60_000.0, dtype))
    assert float(wrapped(family).scale_loss(1.5)) == 12.0


def test_a_float16_loss_that_is_scaled_warns_once(family, caplog):
    fits, optimizer = wrapped(family, scale=2.0), wrapped(family, scale=2.0**15)
    fits.get_scaled_loss(tf.constant(4.0, tf.float16))
    fits.get_scaled_loss(tf.constant(1e30))
    assert "float16" not in caplog.text
    for _ in range(2):
        optimizer.get_scaled_loss(tf.constant(4.0, tf.float16))
    assert caplog.text.count("float16 loss") == 1


_PARTS = {
    "tuples": ([[1.0], [2.0], [3.0]], (0, 2, 2), (3, 1)),
    "lists": ([[1.0], [2.0], [3.0]], [0, 2, 2], [3, 1]),
    "arrays": (np.float32([[1], [2], [3]]), np.array([0, 2, 2]), np.array([3, 1])),
    "no shape": (tf.constant([[1.0], [2.0], [3.0]]), [0, 2, 2], None),
    "no rows": (tf.zeros([0, 1]), [], (3, 1)),
}


@pytest.mark.parametrize(
    "parts, family, compiled",
    [
        *[(parts, family, False) for parts in _PARTS for family in FAMILIES],
        *[(*each, True) for each in zip(_PARTS, itertools.cycle(FAMILIES))],
    ],
)
def test_slices_of_anything_that_holds_numbers(parts, compiled, family):
    """`tf.IndexedSlices` takes them as they are."""
    x = tf.Variable([[0.0], [0.0], [0.0]])
    optimizer = wrapped(family, scale=8)
    optimizer.build([x])
    slices = tf.IndexedSlices(*_PARTS[parts])

    def step():
        assert optimizer.check_finite([slices]) is not None
        unscaled = optimizer.get_unscaled_gradients([slices])
        optimizer.apply_gradients(zip(unscaled, [x]))
        optimizer.scale_loss(tf.constant(1.0))
        optimizer.apply_gradients([(slices, x)])

    (tf.function(step) if compiled else step)()
    rows = [0.0, 0.0, 0.0] if parts == "no rows" else [1.0, 0.0, 5.0]
    np.testing.assert_allclose(x.numpy()[:, 0], np.multiply(rows, -0.2 / 8), rtol=1e-6)
