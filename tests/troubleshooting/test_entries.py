"""The entries of the page: each block of Python runs, and each named entry exists."""

import re

import pytest
import tensorflow as tf

import tf_lso
from tests.families import needs_keras3
from tests.generation import needs_tf_keras
from tests.processes import ROOT
from tests.troubleshooting import models
from tests.troubleshooting.page import ENTRIES, assert_not_explained
from tf_lso.frameworks import tf_private

# What a program has done before the block of an entry runs.
_HALF = (
    "keras.mixed_precision.set_global_policy('mixed_float16'); model = one_layer(opt)"
)
_STRATEGY = "strategy = tf.distribute.OneDeviceStrategy('/cpu:0'); step = lambda: None"
_MOMENTUM = "opt = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))"
_CHECKPOINT = f"path = old_checkpoint(); {_MOMENTUM}"
BEFORE = {
    "waiting-gradients": "grads = [tf.constant(8.0)]",
    **dict.fromkeys(("stuck", "always-1", "nan-loss"), _HALF),
    **dict.fromkeys(("replica-context", "scope"), _STRATEGY),
    "saved-model": "old_model().save('model', save_format='tf')",
    "quantization-mode": "old_model().save('model.h5')",
    **dict.fromkeys(("part", "whose-state", "checkpoint-error"), _CHECKPOINT),
    "wrapped-twice": "wrapped = wrapped_sgd()",
}


def fix_of(entry):
    """Return the language and the code of the one block of an entry."""
    ((language, code),) = re.findall(r"^```(\w+)\n(.*?)^```$", entry.text, re.M | re.S)
    return language, code


PYTHON = [name for name, entry in ENTRIES.items() if fix_of(entry)[0] == "py"]


@needs_keras3
@needs_tf_keras
@pytest.mark.parametrize("name", PYTHON)
def test_the_block_of_an_entry_runs_without_its_message(name, shown):
    import tf_keras

    _, code = fix_of(ENTRIES[name])
    model, x = models.new_model(), tf.ones((4, 2))
    model.compile(models.wrapped_sgd(), "mse")
    scope = {**vars(models), "tf_lso": tf_lso, "tf_keras": tf_keras}
    scope |= {"model": model, "x": x, "y": x, "opt": models.wrapped_sgd()}
    scope |= {"variables": [tf.Variable(2.0)], "loss": tf.constant(2.0)}
    scope |= {"sgd": tf.keras.optimizers.SGD(0.5)}
    exec(BEFORE.get(name, ""), scope)
    shown()
    exec(code, scope)
    assert_not_explained(name, shown())


def test_the_names_in_messages_are_those_of_entries():
    names = set()
    for file in (ROOT / "tf_lso").rglob("*.py"):
        names.update(re.findall(r"`tf-lso help ([\w-]+)`", file.read_text("utf-8")))
    assert len(names) > 9
    assert names <= ENTRIES.keys()


def test_the_message_about_a_private_name_that_has_moved():
    error = tf_private.moved("TensorFlow", "2.99", "tensorflow.python.x", "file.py")
    assert ENTRIES["versions"].explains(f"ImportError: {error}")
