"""Both Kerases load what tf_lso saved, as under install()."""

import pytest

from tests.families import keras, keras2
from tf_lso import keras_patches


@pytest.fixture
def installed():
    for module in (keras, keras2):
        keras_patches.enable(keras_patches.LOADING, module)
    yield
    for module in (keras, keras2):
        keras_patches.disable(keras_patches.LOADING, module)
