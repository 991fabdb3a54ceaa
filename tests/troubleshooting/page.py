"""The entries of the troubleshooting page, and what their tests ask of them."""

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
    """Assert that a text, such as a log, holds the message of an entry."""
    assert ENTRIES[name].explains(text), text


def assert_not_explained(name, text):
    """Assert that the message of an entry is not in a text."""
    assert not ENTRIES[name].explains(text), text
