"""Check gradients for infinity and NaN, and compare the verdicts with NumPy."""

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


@tf.function
def traced_all_finite(*gradients):
    return finite_lib.all_finite(list(gradients))


def all_finite(*gradients):
    """Return the verdict, which must be the same in eager mode and in a graph."""
    verdict = finite_lib.all_finite(list(gradients))
    assert (verdict.dtype, verdict.shape) == (tf.bool, ())
    assert bool(traced_all_finite(*gradients)) == bool(verdict)
    return bool(verdict)


def sparse(values, indices, dtype=tf.float32, shape=(8, 1)):
    """Return slices with rows of one number each."""
    values = tf.reshape(tf.constant(values, dtype), (-1, 1))
    shape = None if shape is None else tf.constant(shape)
    return tf.IndexedSlices(values, tf.constant(indices), shape)


@pytest.mark.parametrize("value", [NAN, -NAN, INF, -INF])
@pytest.mark.parametrize("dtype", DTYPES)
def test_infinity_and_nan_are_found_at_any_position(dtype, value):
    for position in (0, 3, 6):
        values = np.ones(7, DTYPES[dtype])
        values[position] = value
        assert not all_finite(tf.constant(values)), position


@pytest.mark.parametrize("dtype", DTYPES)
def test_finite_numbers_may_have_an_infinite_sum(dtype):
    largest = tf.constant(np.full(5, float(limits(dtype).max), DTYPES[dtype]))
    assert all_finite(largest)
    assert all_finite(largest, -largest, tf.ones([9000]), largest)
    assert not all_finite(largest, tf.constant(NAN))
    assert not all_finite(largest, tf.constant(INF, tf.float16))
    assert not all_finite(largest, tf.constant([INF, -INF], dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_finite_numbers_may_have_an_infinite_sum_in_xla(dtype):
    @tf.function(jit_compile=True)
    def all_finite_in_xla(*gradients):
        return finite_lib.all_finite(list(gradients))

    largest = tf.constant([np.finfo(dtype).max] * 2, dtype)
    half = tf.constant(1.0, tf.float16)
    assert bool(all_finite_in_xla(largest, largest))
    assert bool(all_finite_in_xla(largest, -largest, half))
    assert not bool(all_finite_in_xla(largest, largest, half / 0.0))
    assert not bool(all_finite_in_xla(largest, tf.constant([1.0, NAN], dtype)))
    assert not bool(all_finite_in_xla(largest, tf.constant([INF, -INF], dtype)))


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
def test_rows_with_equal_indices_are_summed_before_the_check(rows):
    """Each row is an index and a value."""
    indices, values = zip(*rows, strict=True)
    dense = np.zeros(4, np.float32)
    with np.errstate(all="ignore"):
        np.add.at(dense, list(indices), np.array(values, np.float32))
    for shape in ((4, 1), None):
        slices = sparse(values, indices, shape=shape)
        assert all_finite(slices) == np.isfinite(dense).all()


@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 3, 4)])
def test_rows_may_have_any_rank(shape):
    indices = tf.constant([7, 7])
    row = np.ones(shape[1:])
    finite_rows = tf.constant([row, row], tf.float32)
    assert all_finite(tf.IndexedSlices(finite_rows, indices))
    rows_with_nan = tf.constant([row, row * NAN], tf.float32)
    assert not all_finite(tf.IndexedSlices(rows_with_nan, indices))


# Name -> the gradients, and the verdict.
LISTS = {
    "nothing": ([], True),
    "only None": ([None], True),
    "None and a number": ([None, tf.constant(1.0), None], True),
    "None and NaN": ([None, tf.constant(NAN)], False),
    "empty": ([tf.zeros((0,))], True),
    "empty and a number": ([tf.zeros((3, 0)), tf.constant(1.0)], True),
    "no rows": ([sparse([], np.int64([]))], True),
    "rows of a variable that does not fit into memory": (
        [sparse([1.0, 1.0], [10**12, 10**12], shape=np.int64([10**13, 1]))],
        True,
    ),
    "array": ([np.float32([1.0])], True),
    "array with NaN": ([np.float32([NAN])], False),
    "variable": ([tf.Variable([1.0])], True),
    "variable with NaN": ([tf.Variable([NAN])], False),
    "integers": ([tf.constant([1, 2])], True),
    "integers and NaN": ([tf.constant([1, 2]), tf.constant(NAN)], False),
    "complex": ([tf.constant([1 + 2j], tf.complex64)], True),
    "complex with NaN": ([tf.constant([complex(1, NAN)], tf.complex64)], False),
    "complex with inf": ([tf.constant([complex(INF, 0)], tf.complex128)], False),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists(name):
    gradients, expected = LISTS[name]
    assert all_finite(*gradients) is expected


@pytest.mark.parametrize("position", [0, 63, 64, 149])
def test_one_infinity_among_150_gradients_is_found(position):
    """One operation checks at most 64 gradients, so here three operations share the work."""
    gradients = [tf.constant([1.0, 2.0])] * 150
    assert all_finite(*gradients)
    gradients[position] = tf.constant([1.0, INF])
    assert not all_finite(*gradients)
    kinds = [0] * 150
    kinds[position] = finite_lib.INF
    assert finite_lib.kinds_of(gradients).numpy().tolist() == kinds


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_one_bad_gradient_among_gradients_of_all_kinds_is_found(position):
    def gradients(first, second, third, fourth):
        return [
            tf.constant([1.0, first]),
            sparse([second], [0]),
            tf.constant(third, tf.float16),
            tf.constant([[fourth]], tf.float64),
        ]

    assert all_finite(*gradients(1.0, 1.0, 1.0, 1.0))
    for bad in (NAN, INF, -INF):
        values = [1.0, 1.0, 1.0, 1.0]
        values[position] = bad
        assert not all_finite(*gradients(*values))


# --- All replicas agree.


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((1.0, 1.0), 0),
        ((NAN, 1.0), finite_lib.NAN),
        ((1.0, INF), finite_lib.INF),
        ((NAN, INF), finite_lib.NAN + finite_lib.INF),
    ],
    ids=str,
)
def test_agreed_returns_the_verdict_on_all_replicas(mirrored2, values, kind):
    gradient, is_finite = per_replica(mirrored2, values), kind == 0
    with mirrored2.scope():
        finite, kinds = finite_lib.agreed([gradient])
    assert bool(finite) == is_finite
    assert kinds.numpy().tolist() == [kind]

    # Where XLA compiles a step for several GPUs, the replicas do not merge.
    without_merging = tf.function(lambda gradient: finite_lib.agreed([gradient]).finite)
    verdicts = mirrored2.run(without_merging, args=(gradient,))
    for finite in mirrored2.experimental_local_results(verdicts):
        assert bool(finite) == is_finite


def test_check_finite_of_the_optimizer(family):
    optimizer = wrapped(family)
    assert bool(optimizer.check_finite([tf.constant(1.0), None]))
    assert bool(optimizer.check_finite([]))
    assert not bool(optimizer.check_finite([sparse([NAN, 1.0], [1, 1])]))
