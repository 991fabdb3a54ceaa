"""`tf-lso run`: a program finds the old names in place."""

from tests import preloaded

PROGRAM = """
from tensorflow.keras.mixed_precision import experimental
import tensorflow as tf
print(experimental is tf.keras.mixed_precision.experimental)
"""


def test_where_tensorflow_was_imported_before(tmp_path):
    """As by a `sitecustomize` of the user's own."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = preloaded.run(["-m", "tf_lso", "run", program], tmp_path)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
