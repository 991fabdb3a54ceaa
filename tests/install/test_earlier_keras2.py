"""`--like` restores names of an earlier Keras 2.

The programs in tests/old_programs/like test what these names compute.
"""

import pytest

from tests import preloaded, processes
from tests.generation import LEGACY_KERAS
from tf_lso.install import earlier_keras2

# Prints which names of TensorFlow 2.4 exist, and the version of Keras: under
# `install(like="2.4")`, after `uninstall()`, and under `install(like="2.11")`. Under 2.4 the
# program also changes a setting and prints it.
RESTORED_NAMES = """
import tf_lso
handle = tf_lso.install(like="2.4")
import tensorflow as tf
from tf_lso.frameworks import keras_versions
K = tf.keras
before = keras_versions.version(keras_versions.package_of_tensorflow())

def restored():
    options = tf.data.Options().experimental_optimization
    return [
        hasattr(K.Sequential, "predict_classes"),
        hasattr(K.layers.Layer, "apply"),
        hasattr(K.experimental, "LinearCosineDecay"),
        hasattr(tf.data.experimental, "MapVectorizationOptions"),
        hasattr(options, "map_vectorization"),
        K.Sequential().distribute_reduction_method == "first",
    ]

print(*restored(), K.__version__)
model = K.Sequential()
model.distribute_reduction_method = "sum"
print(model.distribute_reduction_method)
handle.uninstall()
print(*restored(), getattr(K, "__version__", before) == before)
with tf_lso.install(like="2.11"):
    print(*restored(), K.__version__)
"""


def test_every_version_of_keras_2_is_in_the_table():
    assert earlier_keras2.KERAS_VERSIONS.keys() == {(2, minor) for minor in range(16)}


@pytest.mark.slow
def test_uninstall_removes_the_restored_names_and_2_11_has_none():
    lines = processes.run(
        RESTORED_NAMES, by=preloaded.run, TF_USE_LEGACY_KERAS=LEGACY_KERAS
    )
    assert lines == [
        "True True True True True True 2.4.0",
        "sum",
        "False False False False False False True",
        "False False False False False False 2.11.0",
    ]
