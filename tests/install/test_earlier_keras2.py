"""`--like` restores names of an earlier Keras 2.

The programs in tests/old_programs/like test what these names compute.
"""

import pytest

from tests import preloaded, processes
from tests.generation import LEGACY_KERAS
from tf_lso.install import earlier_keras2

# Prints the version of Keras as programs read it, and does the same in a child process.
VERSIONS = """
import subprocess, sys
import tensorflow as tf
from tensorflow import keras
import tensorflow.keras
from tensorflow.keras import __version__ as imported

print(tf.keras.__version__, keras.__version__, tensorflow.keras.__version__, imported)
if len(sys.argv) == 1:
    run = [sys.executable, __file__, "child"]
    print(subprocess.run(run, capture_output=True, text=True).stdout)
"""

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "keras_version"),
    [
        ("2.0", "2.2.4-tf"),
        ("2.4", "2.4.0"),
        ("2.10", "2.10.0"),
        ("2.15", "2.15.0"),
    ],
)
def test_each_spelling_has_the_version_of_that_keras(version, keras_version, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(VERSIONS)
    done = processes.start(["-m", "tf_lso", "run", "--like", version, str(path)])
    line = " ".join([keras_version] * 4)
    assert done.stdout.split("\n") == [line, line, "", ""], done.stderr


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
