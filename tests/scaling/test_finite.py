"""Is every gradient finite? Against NumPy, for every bit pattern where that is few."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dtypes import DTYPES, limits
from tests.families import per_replica, wrapped
from tf_lso.scaling import finite as finite_lib

pytestmark = pytest.mark.core

NAN, INF = float("nan"), float("inf")


@tf.function  # one for all, a graph for each dtype and shape
def traced(*gradients):
    return finite_lib.all_finite(list(gradients))


def both(*gradients):
    """The verdict, the same in eager mode and in a graph."""
    verdict = finite_lib.all_finite(list(gradients))
    assert (verdict.dtype, verdict.shape) == (tf.bool, ())
    assert bool(traced(*gradients)) == bool(verdict)
    return bool(verdict)


def sparse(values, indices, dtype=tf.float32, shape=(8, 1)):
    values = tf.reshape(tf.constant(values, dtype), (-1, 1))
    shape = None if shape is None else tf.constant(shape)
    return tf.IndexedSlices(values, tf.constant(indices), shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_finite_and_what_is_none_is_found_anywhere(dtype):
    info = limits(dtype)
    least = info.smallest_subnormal
    for number in (0.0, -0.0, info.max, info.min, info.tiny, least, -least, info.eps):
        assert both(tf.constant(np.array(float(number), DTYPES[dtype]))), number
    for value in (NAN, -NAN, INF, -INF):
        for position in (0, 3, 6):
            values = np.ones(7, DTYPES[dtype])
            values[position] = value
            assert not both(tf.constant(values)), (value, position)


@pytest.mark.parametrize("dtype", DTYPES)
def test_finite_numbers_may_have_an_infinite_sum(dtype):
    largest = tf.constant(np.full(5, float(limits(dtype).max), DTYPES[dtype]))
    assert both(largest)
    assert both(largest, -largest, tf.ones([9000]), largest)
    assert not both(largest, tf.constant(NAN))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_bit_pattern_of_16_bits(dtype):
    patterns = np.arange(2**16, dtype=np.uint16).view(DTYPES[dtype])
    with np.errstate(invalid="ignore"):
        expected = np.isfinite(patterns)

    @tf.function
    def verdicts(values):
        signature = {"fn_output_signature": tf.bool, "parallel_iterations": 64}
        return tf.map_fn(lambda v: finite_lib.all_finite([v]), values, **signature)

    np.testing.assert_array_equal(verdicts(tf.constant(patterns)), expected)
    assert 0 < expected.sum() < 2**16


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from([0.0, 1.0, 3e38, -3e38, NAN, INF, -INF])
        ),
        min_size=1,
        max_size=6,
    )
)
def test_slices_are_judged_by_the_rows_that_reach_the_variable(rows):
    indices, values = zip(*rows, strict=True)
    dense = np.zeros(4, np.float32)
    with np.errstate(all="ignore"):
        np.add.at(dense, list(indices), np.array(values, np.float32))
    for shape in ((4, 1), None):
        assert both(sparse(values, indices, shape=shape)) == np.isfinite(dense).all()


# Name -> what is judged, and the verdict.
LISTS = {
    "nothing": ([], True),
    "None alone": ([None], True),
    "None beside a number": ([None, tf.constant(1.0), None], True),
    "None beside NaN": ([None, tf.constant(NAN)], False),
    "empty": ([tf.zeros((0,))], True),
    "empty beside a number": ([tf.zeros((3, 0)), tf.constant(1.0)], True),
    "no rows": ([sparse([], np.int64([]))], True),
    "rows of what does not fit into memory": (
        [sparse([1.0, 1.0], [10**12, 10**12], shape=np.int64([10**13, 1]))],
        True,
    ),
}
for bits in (0x7FC00001, 0x7F800001, 0xFFFFFFFF):
    LISTS[f"NaN {bits:x}"] = [tf.constant(np.uint32(bits).view("float32"))], False
for bits in (0x7FF0000000000001, 0xFFF8000000000123):
    LISTS[f"NaN {bits:x}"] = [tf.constant(np.uint64(bits).view("float64"))], False
for dtype in DTYPES:
    most = [float(limits(dtype).max)] * 2
    LISTS[f"{dtype} rows whose sum overflows"] = [sparse(most, [2, 2], dtype)], False
    LISTS[f"{dtype} rows of two indices"] = [sparse(most, [2, 3], dtype)], True
for shape, dtype in itertools.product([(2, 1), (2, 3, 4), (2,)], ["int32", "int64"]):
    for value in (1.0, NAN):
        rows = tf.constant([np.ones(shape[1:]), np.full(shape[1:], value)], tf.float32)
        slices = tf.IndexedSlices(rows, tf.constant([7, 7], dtype))
        LISTS[f"rows {shape} of {dtype}, {value}"] = [slices], value == 1.0
for dtype in (tf.int32, tf.int64, tf.uint8):
    integers = tf.constant([1, 2], dtype)
    LISTS[dtype.name] = [integers], True
    LISTS[f"{dtype.name} beside NaN"] = [integers, tf.constant(NAN)], False
for dtype in (tf.complex64, tf.complex128):
    for number, is_finite in ((1 + 2j, True), (complex(1, NAN), False), (INF, False)):
        LISTS[f"{dtype.name} {number}"] = [tf.constant([number], dtype)], is_finite
for position, bad in enumerate([1.0, NAN, NAN, INF, -INF]):
    one, two, three, four = [bad if i == position else 1.0 for i in range(1, 5)]
    mixed = [tf.constant([1.0, one]), sparse([two], [0])]
    mixed += [tf.constant(three, tf.float16), tf.constant([[four]], tf.float64)]
    LISTS[f"of all kinds, {position}"] = mixed, position == 0
for value in (1.0, NAN):
    LISTS[f"array of {value}"] = [np.float32([value])], value == 1.0
    LISTS[f"variable of {value}"] = [tf.Variable([value])], value == 1.0


@pytest.mark.parametrize("name", LISTS)
def test_lists(name):
    gradients, expected = LISTS[name]
    assert both(*gradients) is expected


@pytest.mark.parametrize("mode", ["eager", "function", "xla"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_whose_sum_overflows_are_finite(dtype, mode):
    def verdict(*gradients):
        return finite_lib.all_finite(list(gradients))

    if mode != "eager":
        verdict = tf.function(verdict, jit_compile=mode == "xla")
    great = np.finfo(dtype).max
    values, half = tf.constant([great, great], dtype), tf.constant(1.0, tf.float16)
    assert bool(verdict(values, values))
    assert bool(verdict(values, -values, half))
    assert not bool(verdict(values, values, half / 0.0))
    assert not bool(verdict(values, tf.constant([1.0, NAN], dtype)))
    assert not bool(verdict(values, tf.constant([INF, -INF], dtype)))


# --- All replicas agree.


@pytest.mark.parametrize("are_equal", [False, True])
def test_agreed_is_the_verdict_of_the_one_replica(are_equal):
    assert bool(finite_lib.agreed([tf.constant(1.0), None], are_equal).finite)
    assert not bool(finite_lib.agreed([tf.constant(NAN)], are_equal).finite)


@pytest.mark.parametrize(
    "values", [(1.0, 1.0), (NAN, 1.0), (1.0, INF), (NAN, NAN)], ids=str
)
def test_the_verdict_across_replicas(mirrored2, values):
    gradient = per_replica(mirrored2, values)
    with mirrored2.scope():
        finite, kinds = finite_lib.agreed([gradient])
    assert bool(finite) == np.isfinite(values).all()
    assert kinds.numpy().tolist() == [[INF in values, bool(np.isnan(values).any())]]


def test_merging_is_needed_on_a_mirrored_replica_only(mirrored2):
    seen = [finite_lib.merging_is_needed()]
    with mirrored2.scope():
        seen.append(finite_lib.merging_is_needed())
    mirrored2.run(lambda: seen.append(finite_lib.merging_is_needed()))
    assert seen == [False, False, True, True]


def test_check_finite_of_the_optimizer(family):
    optimizer = wrapped(family)
    assert bool(optimizer.check_finite([tf.constant(1.0), None]))
    assert bool(optimizer.check_finite([]))
    assert not bool(optimizer.check_finite([sparse([NAN, 1.0], [1, 1])]))
