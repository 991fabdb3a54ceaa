"""Run each test in a folder of its own, and restore TensorFlow and Keras afterwards."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import KERASES


@pytest.fixture(autouse=True)
def restored(tmp_path, monkeypatch):
    """Run a test in `tmp_path`, and undo what the test switches on for the whole process."""
    monkeypatch.chdir(tmp_path)
    yield
    if tf.__internal__.train.is_mixed_precision_graph_rewrite_enabled():
        tf.compat.v1.mixed_precision.disable_mixed_precision_graph_rewrite()
    tf_lso.uninstall()
    for library in KERASES.values():
        library.mixed_precision.set_global_policy("float32")


@pytest.fixture
def shown(caplog, capfd):
    """A function that returns all text that was logged and printed since its last call."""

    def read():
        logged = caplog.text
        caplog.clear()
        return logged + "".join(capfd.readouterr())

    return read


@pytest.fixture
def variables():
    """A list with the only weight of a model. The value of the weight is 2."""
    return [tf.Variable(2.0)]
