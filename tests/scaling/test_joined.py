"""Small tensors as one."""

import numpy as np
import pytest
import tensorflow as tf

from tests import counting
from tests.families import wrapped
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling.fast import joined

NAN, INF = float("nan"), float("inf")
TENSORS = [
    tf.constant([[1.0, 2.0], [3.0, 4.0]]),
    tf.constant([5.0, 6.0], tf.float64),
    tf.constant(7.0),
    tf.zeros([0, 3]),
    tf.fill([joined.SMALL + 1], 8.0),
    tf.constant([9.0], tf.float64),
    tf.fill([joined.SMALL], 10.0),
    tf.constant([11, 12]),
]
MANY = TENSORS * 4  # enough of float32 and float64 to be joined, too few of int32


def halved(values):
    return values // 2 if values.dtype.is_integer else values / 2


@pytest.mark.parametrize("mode", ["eager", "function", "xla"])
def test_each_tensor_gets_its_own_result(mode):
    def function(tensors):
        return joined.mapped(halved, tensors)

    if mode != "eager":
        function = tf.function(function, jit_compile=mode == "xla")
    for tensor, result in zip(MANY, function(MANY), strict=True):
        assert result.dtype == tensor.dtype
        np.testing.assert_array_equal(result, halved(tensor), strict=True)


def test_one_operation_for_the_small_ones_of_a_dtype():
    calls = []

    def function(values):
        calls.append((values.dtype.name, values.shape.num_elements()))
        return values

    tf.function(lambda: joined.mapped(function, MANY))()
    assert sorted(calls) == [
        *[("float32", joined.SMALL + 1)] * 4,
        ("float32", 4 * (joined.SMALL + 5)),
        ("float64", 12),
        *[("int32", 2)] * 4,  # fewer than FEWEST
    ]


@pytest.mark.parametrize("position", range(24))
def test_a_large_one_stays_alone_at_each_position(position):
    """TensorFlow takes some numbers for dtypes: 1 is equal to tf.float32."""
    tensors = [tf.fill([2], float(i)) for i in range(24)]
    tensors[position] = tf.ones([joined.SMALL + 1], tf.float64)
    tensors.append(tf.ones([2], tf.half))
    results = tf.function(lambda: joined.mapped(halved, tensors))()
    for tensor, result in zip(tensors, results, strict=True):
        np.testing.assert_array_equal(result, halved(tensor), strict=True)


def test_unknown_shapes_stay_alone():
    spec = tf.TensorSpec([None])

    @tf.function(input_signature=[spec, spec])
    def function(*tensors):
        assert joined.joined(list(tensors)) == list(tensors)
        return joined.mapped(halved, tensors)

    results = function(tf.constant([2.0]), tf.constant([4.0, 6.0]))
    assert [result.numpy().tolist() for result in results] == [[1.0], [2.0, 3.0]]


def test_shapes_that_are_known_in_part_stay_as_they_are():
    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([2])])
    def function(*tensors):
        return joined.mapped(halved, tensors)

    first, second = function(tf.ones([3, 2]), tf.ones([2]))
    assert first.shape == [3, 2] and second.shape == [2]


@pytest.mark.parametrize("bad", [None, NAN, INF, -INF])
@pytest.mark.parametrize("position", range(len(TENSORS) - 1))
def test_the_verdict_finds_each_number(position, bad):
    numbers = [np.array(tensor) for tensor in MANY]
    if bad is not None:
        numbers[position].reshape(-1)[-1:] = bad
    expected = all(np.isfinite(array).all() for array in numbers)
    verdict = tf.function(lambda *tensors: finite_lib.all_finite(list(tensors)))
    assert bool(verdict(*map(tf.constant, numbers))) == expected


def test_unscales_each(family):
    gradients = [tensor for tensor in MANY if not tensor.dtype.is_integer]
    unscaled = tf.function(gradients_lib.unscale_gradients)(gradients, tf.constant(3.0))
    for gradient, result in zip(gradients, unscaled, strict=True):
        expected = gradient / tf.constant(3.0, gradient.dtype)
        np.testing.assert_array_equal(result, expected, strict=True)


def test_more_small_tensors_need_no_more_checks_and_divisions(family):
    counts = []
    for number in (10, 110):
        variables = [tf.Variable([1.0, 2.0]) for _ in range(number)]
        optimizer = wrapped(family, "SGD", 0.1)
        optimizer.build(variables)

        @tf.function
        def step(variables=variables, optimizer=optimizer):
            gradients = optimizer.get_unscaled_gradients([v * 8.0 for v in variables])
            optimizer.apply_gradients(zip(gradients, variables))

        used = counting.operations(step.get_concrete_function().graph)
        counts.append({kind: used[kind] for kind in ("IsFinite", "Sum", "RealDiv")})
    assert counts[0] == counts[1]
