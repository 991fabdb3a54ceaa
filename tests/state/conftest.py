"""Both Kerases load what tf_lso saved, as under install()."""

import keras
import pytest
import tf_keras

from tf_lso.keras_patches import loading


@pytest.fixture
def installed():
    for module in (keras, tf_keras):
        assert loading.enable(module)
    yield
    for module in (keras, tf_keras):
        loading.disable(module)
