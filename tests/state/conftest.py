"""The Kerases load what tf_lso saved, as under install()."""

import pytest

from tests.families import PACKAGES
from tf_lso import keras_patches


@pytest.fixture(scope="module")
def installed():
    """From the first test that asks for it to the end of its file."""
    packages = sorted(set(PACKAGES.values()))
    for package in packages:
        keras_patches.enable(keras_patches.LOADING, package)
    yield
    for package in packages:
        keras_patches.disable(keras_patches.LOADING, package)
