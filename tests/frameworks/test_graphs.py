"""A switch is on in a block of a thread, and has its earlier state afterwards."""

import threading

import pytest

from tf_lso.frameworks import graphs


def test_a_switch_stays_on_after_a_nested_block():
    switch = graphs.ThreadSwitch()
    with switch.on():
        with switch.on():
            assert switch.is_on
        assert switch.is_on
    assert not switch.is_on


def test_a_switch_is_off_after_an_error():
    switch = graphs.ThreadSwitch()
    with pytest.raises(KeyError), switch.on():
        raise KeyError
    assert not switch.is_on


def test_a_switch_is_on_in_one_thread_only():
    switch, seen = graphs.ThreadSwitch(), []
    with switch.on():
        thread = threading.Thread(target=lambda: seen.append(switch.is_on))
        thread.start()
        thread.join()
    assert seen == [False]
