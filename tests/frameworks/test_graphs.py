"""Where code runs: in which replica, and in the block of a switch."""

import threading
import types

import pytest
import tensorflow as tf

from tf_lso.frameworks import graphs


def test_a_switch_stays_on_after_a_nested_block_and_is_off_after_an_error():
    switch = graphs.ThreadSwitch()
    with pytest.raises(KeyError), switch.on():
        with switch.on():
            assert switch.is_on
        assert switch.is_on
        raise KeyError
    assert not switch.is_on


def test_a_switch_is_on_in_one_thread_only():
    switch, seen = graphs.ThreadSwitch(), []
    with switch.on():
        thread = threading.Thread(target=lambda: seen.append(switch.is_on))
        thread.start()
        thread.join()
    assert seen == [False]


@pytest.mark.parametrize(
    ("replica", "is_first"),
    [(0, True), (1, False), (2, True), (3, False), (None, True)],
)
def test_each_of_two_workers_has_a_first_replica(replica, is_first, monkeypatch):
    extended = types.SimpleNamespace(worker_devices=("GPU:0", "GPU:1"))
    strategy = types.SimpleNamespace(num_replicas_in_sync=4, extended=extended)
    monkeypatch.setattr(tf.distribute, "get_strategy", lambda: strategy)
    monkeypatch.setattr(graphs, "replica_id", lambda: replica)
    assert graphs.is_first_replica() is is_first
