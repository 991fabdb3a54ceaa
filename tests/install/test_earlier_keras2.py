"""`--like` restores names of an earlier Keras 2.

The programs in tests/old_programs/like test what these names compute.
"""

import pytest

from tests import preloaded, processes
from tests.generation import LEGACY_KERAS
from tf_lso.install import earlier_keras2, like

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

UNINSTALLED = """
import tf_lso
handle = tf_lso.install(like="2.4")
import tensorflow as tf
from tf_lso.frameworks import keras_versions
K, before = tf.keras, keras_versions.version(keras_versions.package_of_tensorflow())

def there():
    options = tf.data.Options().experimental_optimization
    return [
        hasattr(K.Sequential, "predict_classes"),
        hasattr(K.layers.Layer, "apply"),
        hasattr(K.experimental, "LinearCosineDecay"),
        hasattr(tf.data.experimental, "MapVectorizationOptions"),
        hasattr(options, "map_vectorization"),
        K.Sequential().distribute_reduction_method == "first",
        K.__version__ if hasattr(K, "__version__") else None,
    ]

print(*there())
model = K.Sequential()
model.distribute_reduction_method = "sum"
print(model.distribute_reduction_method)
handle.uninstall()
print(*there()[:-1], there()[-1] in (None, before))
with tf_lso.install(like="2.11"):
    print(*there())
"""


@pytest.mark.parametrize(
    "version",
    [
        "2.4",
        *[pytest.param(v, marks=pytest.mark.slow) for v in ("2.0", "2.10", "2.15")],
    ],
)
def test_each_spelling_says_the_version_of_its_time(version, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(VERSIONS)
    done = processes.start(["-m", "tf_lso", "run", "--like", version, str(path)])
    said = earlier_keras2.KERAS_VERSIONS[like.parsed(version)]
    line = " ".join([said] * 4)
    assert done.stdout.split("\n") == [line, line, "", ""], done.stderr


def test_every_version_of_keras_2_is_in_the_table():
    assert earlier_keras2.KERAS_VERSIONS.keys() == {(2, minor) for minor in range(16)}


def test_uninstall_takes_them_back_and_2_11_has_none():
    environment = {"TF_USE_LEGACY_KERAS": LEGACY_KERAS}
    lines = processes.run(UNINSTALLED, by=preloaded.run, **environment)
    assert lines == [
        "True True True True True True 2.4.0",
        "sum",
        "False False False False False False True",
        "False False False False False False 2.11.0",
    ]
