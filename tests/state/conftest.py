"""The Kerases load what tf_lso saved, as under install()."""

import pytest

import tf_lso


@pytest.fixture(scope="module")
def installed():
    """From the first test that asks for it to the end of its file."""
    with tf_lso.install():
        yield
