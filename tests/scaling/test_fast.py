"""Eager operations in one call."""

import pytest
import tensorflow as tf

from tests.scaling.bench import in_thread
from tf_lso.scaling import fast

TENSORS = [tf.constant([1.0, 2.0]), tf.constant(3, tf.int32), tf.ones([2, 2], tf.half)]
EXPECTED = [6.0, 6, 8.0]


def counted(in_graphs=False):
    """A packed function, and the numbers of tensors for which Python ran it."""
    calls = []

    @fast.packed(in_graphs=in_graphs)
    def sums(tensors, factor):
        calls.append(len(tensors))
        return [tf.reduce_sum(t) * tf.cast(factor, t.dtype) for t in tensors]

    return sums, calls


def test_runs_python_once_for_tensors_of_the_same_dtypes():
    function, calls = counted()
    for shape in ([2], [3], [2, 4], []):
        assert function([tf.ones(shape)] * 2, tf.constant(2.0))[1].shape == []
    assert calls == [2]
    function([tf.ones([2], tf.half)] * 2, tf.constant(2.0))
    function([tf.ones([2])], tf.constant(2.0))
    assert calls == [2, 2, 1]


@pytest.mark.parametrize("in_graphs", [False, True])
def test_is_called_by_a_function_that_is_traced_only_where_graphs_may(in_graphs):
    function, calls = counted(in_graphs)
    results = function(TENSORS, tf.constant(2.0))
    assert [result.numpy() for result in results] == EXPECTED
    assert [result.dtype for result in results] == [t.dtype for t in TENSORS]
    for _ in range(2):
        step = tf.function(lambda factor: function(TENSORS, factor))
        assert [result.numpy() for result in step(tf.constant(2.0))] == EXPECTED
        operations = step.get_concrete_function(tf.constant(2.0)).graph.get_operations()
        types = {operation.type for operation in operations}
        assert ("PartitionedCall" in types) == in_graphs
    assert calls == ([3] if in_graphs else [3, 3, 3])


def test_no_tensors_need_no_call():
    function, calls = counted()
    assert function([], tf.constant(2.0)) == []
    assert calls == [0]


def test_tapes_and_accumulators_see_each_operation():
    """This fails when the private name, by which a tape is seen, has moved."""
    x, (function, _) = tf.constant([1.0, 2.0]), counted()
    with tf.GradientTape() as tape:
        tape.watch(x)
        (y,) = function([x], tf.constant(3.0))
    assert tape.gradient(y, x).numpy().tolist() == [3.0, 3.0]
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        (y,) = function([x], tf.constant(3.0))
    assert accumulator.jvp(y).numpy() == 6.0


def test_the_first_thread_does_not_bind_it_to_its_device():
    function, _ = counted()

    def device_used(device):
        with tf.device(device):
            return function([tf.ones([2])], tf.constant(2.0))[0].device

    for device in ("CPU:1", "CPU:0"):
        assert in_thread(device_used, device).endswith(device)


@pytest.mark.slow
def test_models_of_one_process_share_their_graphs():
    traces = []

    @fast.packed
    def function(tensors):
        traces.append(len(tensors))
        return [tensor + 1.0 for tensor in tensors]

    for count in (*range(1, 400, 7), *range(1, 400, 7)):
        results = function([tf.constant(float(i)) for i in range(count)])
        assert [float(r) for r in results] == [i + 1.0 for i in range(count)]
    assert len(traces) == len(set(traces)) <= fast.MOST
