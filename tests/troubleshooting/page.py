"""The entries of the troubleshooting page, and assertions about their messages."""

import contextlib

import pytest

from tf_lso import help

ENTRIES = {entry.name: entry for entry in help.entries()}


@contextlib.contextmanager
def raises(name):
    """Expect an error whose text `tf-lso help` explains by the entry with this name."""
    with pytest.raises(Exception) as caught:
        yield
    assert_explained(name, f"{type(caught.value).__name__}: {caught.value}")


def assert_explained(name, text):
    """Assert that a text, such as a log, contains the message of an entry."""
    assert ENTRIES[name].explains(text), text


def assert_not_explained(name, text):
    """Assert that a text does not contain the message of an entry."""
    assert not ENTRIES[name].explains(text), text
