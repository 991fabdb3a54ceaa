"""Each test runs in a folder of its own, and leaves TensorFlow and Keras as they were."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import KERASES


@pytest.fixture(autouse=True)
def restored(tmp_path, monkeypatch):
    """Undo what the programs of the page switch on for the whole process."""
    monkeypatch.chdir(tmp_path)
    yield
    if tf.__internal__.train.is_mixed_precision_graph_rewrite_enabled():
        tf.compat.v1.mixed_precision.disable_mixed_precision_graph_rewrite()
    tf_lso.uninstall()
    for library in KERASES.values():
        library.mixed_precision.set_global_policy("float32")


@pytest.fixture
def shown(caplog, capfd):
    """Return what was logged and printed since the last call, as one text."""

    def read():
        logged = caplog.text
        caplog.clear()
        return logged + "".join(capfd.readouterr())

    return read


@pytest.fixture
def variables():
    """The variables of a model with one weight, which is 2."""
    return [tf.Variable(2.0)]
