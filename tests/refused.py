"""Expect errors that a test describes in one line: the class and parts of the message."""

import builtins
import contextlib

import pytest


@contextlib.contextmanager
def refused(expected):
    """Expect an error, such as `ValueError: 'grads' ... 1 elements`.

    The text before the colon is the name of the error's class. The error must not belong to a
    subclass. The parts between the dots must stand in the message, in any order.
    """
    name, _, parts = expected.partition(": ")
    error = getattr(builtins, name)
    with pytest.raises(error) as caught:
        yield
    assert type(caught.value) is error
    message = str(caught.value)
    missing = [part for part in parts.split(" ... ") if part not in message]
    assert not missing, f"{missing} not in: {message}"
