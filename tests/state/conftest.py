"""Both Kerases load what tf_lso saved, as under install()."""

import keras
import pytest
import tf_keras

from tf_lso import keras_patches


@pytest.fixture
def installed():
    for module in (keras, tf_keras):
        keras_patches.enable(keras_patches.LOADING, module)
    yield
    for module in (keras, tf_keras):
        keras_patches.disable(keras_patches.LOADING, module)
