"""The entries of "Old programs and Keras 3"."""

import pytest

from tests import processes
from tests.families import needs_keras3
from tests.troubleshooting.page import raises

pytestmark = needs_keras3

PREPARATION = """
import numpy as np
import tensorflow as tf

x = np.ones((4, 2), "float32")

def model():
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    return model

class WithSelf(tf.keras.Model):
    def __init__(self):
        super().__init__(self)
        self.layer = tf.keras.layers.Dense(1)

    def call(self, x):
        return self.layer(x)
"""
# Maps a line of a Keras 2 program to the entry that explains the message of Keras 3.
ENTRY_OF = {
    "tf.keras.optimizers.SGD(0.1, decay=0.01)": "decay-ignored",
    "tf.keras.optimizers.SGD("
    "tf.keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)).learning_rate(1)": (
        "lr-attribute"
    ),
    **dict.fromkeys(
        (
            "tf.keras.metrics.Mean().reset_states()",
            "WithSelf()(x)",
            "model().fit(x, x, verbose=0, callbacks=["
            'tf.keras.callbacks.ReduceLROnPlateau("loss")]).history["lr"]',
            "model().fit_generator(iter([(x, x)]), steps_per_epoch=1, verbose=0)",
            "tf.keras.layers.Dense(1, batch_input_shape=(4, 2))",
            "tf.keras.layers.experimental.preprocessing.Normalization()",
            "m = model(); tf.keras.backend.function(m.inputs, m.outputs)([x])",
            'tf.keras.layers.Dense(1, name="block/dense")',
            "model().layers[0].output_shape",
            'tf.keras.losses.MeanSquaredError(reduction="auto")',
        ),
        "old-keras",
    ),
}


@pytest.mark.slow
def test_the_option_like_runs_all_old_lines(tmp_path):
    installs = 'import tf_lso\ntf_lso.install(like="2.4")'
    program = "\n".join([installs, PREPARATION, *ENTRY_OF, 'print("END")'])
    done = processes.start(["-c", program], tmp_path)
    assert done.stdout == "END\n", done.stdout + done.stderr


@pytest.mark.parametrize("line", ENTRY_OF)
@pytest.mark.filterwarnings("error:Argument `decay`")
def test_an_old_line_raises_the_message_of_its_entry(line):
    scope = {"__name__": "old_program"}
    exec(PREPARATION, scope)
    with raises(ENTRY_OF[line]):
        exec(line, scope)
