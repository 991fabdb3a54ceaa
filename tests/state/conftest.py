"""The fixture with which Keras loads the models that tf_lso has saved."""

import pytest

import tf_lso


@pytest.fixture(scope="module")
def installed():
    """Call `tf_lso.install()` before the first test that asks for it, until its file ends."""
    with tf_lso.install():
        yield
