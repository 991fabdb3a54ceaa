"""The Kerases load what tf_lso saved, as under install()."""

import pytest

from tests.families import PACKAGES
from tf_lso import keras_patches


@pytest.fixture
def installed():
    packages = sorted(set(PACKAGES.values()))
    for package in packages:
        keras_patches.enable(keras_patches.LOADING, package)
    yield
    for package in packages:
        keras_patches.disable(keras_patches.LOADING, package)
