"""The decorator `fast.packed`, which runs many eager operations in one call."""

import pytest
import tensorflow as tf

from tests.scaling.bench import in_thread
from tf_lso.scaling import fast

# Tensors of three dtypes, and twice their sums.
TENSORS = [tf.constant([1.0, 2.0]), tf.constant(3, tf.int32), tf.ones([2, 2], tf.half)]
EXPECTED = [6.0, 6, 8.0]


def packed_sums(in_graphs=False):
    """Return a packed function, and a list that records when Python runs this function.

    For each run, the list contains the number of tensors. The function multiplies the sum of
    each tensor by a factor.
    """
    runs = []

    @fast.packed(in_graphs=in_graphs)
    def sums(tensors, factor):
        runs.append(len(tensors))
        return [tf.reduce_sum(t) * tf.cast(factor, t.dtype) for t in tensors]

    return sums, runs


def test_packed_runs_python_once_for_tensors_of_the_same_dtypes():
    sums, runs = packed_sums()
    for shape in ([2], [3], [2, 4], []):
        assert sums([tf.ones(shape)] * 2, tf.constant(2.0))[1].shape == []
    assert runs == [2]
    sums([tf.ones([2], tf.half)] * 2, tf.constant(2.0))
    sums([tf.ones([2])], tf.constant(2.0))
    assert runs == [2, 2, 1]


@pytest.mark.parametrize("in_graphs", [False, True])
def test_packed_is_one_operation_of_a_graph_only_with_in_graphs(in_graphs):
    sums, runs = packed_sums(in_graphs)
    results = sums(TENSORS, tf.constant(2.0))
    assert [result.numpy() for result in results] == EXPECTED
    assert [result.dtype for result in results] == [t.dtype for t in TENSORS]
    for _ in range(2):
        step = tf.function(lambda factor: sums(TENSORS, factor))
        assert [result.numpy() for result in step(tf.constant(2.0))] == EXPECTED
        operations = step.get_concrete_function(tf.constant(2.0)).graph.get_operations()
        types = {operation.type for operation in operations}
        assert ("PartitionedCall" in types) == in_graphs
    assert runs == ([3] if in_graphs else [3, 3, 3])


def test_tapes_and_accumulators_see_each_operation():
    """This fails if TensorFlow renames the private function that finds active tapes."""
    x, (sums, _) = tf.constant([1.0, 2.0]), packed_sums()
    with tf.GradientTape() as tape:
        tape.watch(x)
        (y,) = sums([x], tf.constant(3.0))
    assert tape.gradient(y, x).numpy().tolist() == [3.0, 3.0]
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        (y,) = sums([x], tf.constant(3.0))
    assert accumulator.jvp(y).numpy() == 6.0


def test_a_packed_function_runs_on_the_device_of_each_call():
    sums, _ = packed_sums()

    def device_used(device):
        with tf.device(device):
            return sums([tf.ones([2])], tf.constant(2.0))[0].device

    for device in ("CPU:1", "CPU:0"):
        assert in_thread(device_used, device).endswith(device)


@pytest.mark.slow
def test_packed_traces_at_most_one_graph_for_each_number_of_tensors():
    traces = []

    @fast.packed
    def add_one(tensors):
        traces.append(len(tensors))
        return [tensor + 1.0 for tensor in tensors]

    numbers_of_tensors = range(1, 400, 7)
    for count in (*numbers_of_tensors, *numbers_of_tensors):
        results = add_one([tf.constant(float(i)) for i in range(count)])
        assert [float(r) for r in results] == [i + 1.0 for i in range(count)]
    assert len(traces) == len(set(traces)) <= fast.MOST
