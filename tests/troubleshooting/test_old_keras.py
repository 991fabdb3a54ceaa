"""The entries of "Old programs and Keras 3"."""

import numpy as np
import pytest
import tensorflow as tf

from tests import processes
from tests.families import needs_keras3
from tests.troubleshooting import old_lines
from tests.troubleshooting.models import new_model
from tests.troubleshooting.page import ENTRIES, raises

pytestmark = needs_keras3

SECTION = "Old programs and Keras 3"
LIKE_2_4 = """
import sys
import tf_lso
tf_lso.install(like="2.4")
from tests.troubleshooting import old_lines
for name in sys.argv[1:]:
    getattr(old_lines, name)()
print("END")
"""


# Maps a function of `old_lines` that has no entry to a part of the message of Keras 3, which
# says what to write instead.
SAID_BY_KERAS_3 = {
    "model_checkpoint": r"must end in `\.weights\.h5`",
    "weights_h5": r"must end in `\.weights\.h5`",
    "save_folder": r"add either a `\.keras` extension",
    "tensorboard": "unexpected keyword argument 'write_grads'",
    "fit_workers": "unexpected keyword argument 'workers'",
    "keras_tensor": r"from the namespaces `keras\.layers`",
    # The message of older versions of Keras 3 says that `shape` has several values.
    "add_weight_name": "`name` must be passed as a keyword|values for argument 'shape'",
}


@pytest.mark.parametrize("function", SAID_BY_KERAS_3)
def test_a_line_without_an_entry_has_a_message_that_says_what_to_write(function):
    with pytest.raises((TypeError, ValueError), match=SAID_BY_KERAS_3[function]):
        getattr(old_lines, function)()


@pytest.mark.slow
def test_the_option_like_runs_all_old_lines(tmp_path):
    names = [entry.name for entry in ENTRIES.values() if entry.section == SECTION]
    functions = [*(name.replace("-", "_") for name in names), *SAID_BY_KERAS_3]
    assert len(functions) > 15
    done = processes.start(["-c", LIKE_2_4, *functions], tmp_path)
    assert done.stdout == "END\n", done.stdout + done.stderr


@pytest.fixture
def model():
    made = new_model()
    made.compile("sgd", "mse")
    return made


x = tf.ones((4, 2))


def test_reset_states():
    with raises("reset-states"):
        old_lines.reset_states()
    metric = tf.keras.metrics.Mean()
    metric.reset_state()


def test_super_init_self():
    with raises("super-init-self"):
        old_lines.super_init_self()

    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.layer = tf.keras.layers.Dense(1)

        def call(self, inputs):
            return self.layer(inputs)

    assert Own()(x).shape == (4, 1)


def test_decay_ignored():
    with raises("decay-ignored"):
        old_lines.decay_ignored()
    rate = tf.keras.optimizers.schedules.InverseTimeDecay(0.1, 1, decay_rate=0.01)
    opt = tf.keras.optimizers.SGD(rate)
    opt.apply([tf.constant(1.0)], [tf.Variable(1.0)])
    assert float(opt.learning_rate) == pytest.approx(0.1 / 1.01)


def test_called_rate():
    with raises("called-rate"):
        old_lines.called_rate()
    opt = tf.keras.optimizers.SGD(0.5)
    rate = opt.learning_rate
    assert float(rate) == 0.5


def test_history_lr(model):
    with raises("history-lr"):
        old_lines.history_lr()
    plateau = tf.keras.callbacks.ReduceLROnPlateau(monitor="loss")
    history = model.fit(x, x, verbose=0, callbacks=[plateau]).history
    rates = history["learning_rate"]
    np.testing.assert_allclose(rates, [0.01])


def test_fit_generator(model):
    with raises("fit-generator"):
        old_lines.fit_generator()
    batches = old_lines.batches()
    model.fit(batches, steps_per_epoch=2, verbose=0)


def test_batch_input_shape():
    with raises("batch-input-shape"):
        old_lines.batch_input_shape()
    inputs = tf.keras.Input(batch_shape=(4, 2))
    assert tf.keras.layers.Dense(1)(inputs).shape == (4, 1)


def test_layers_experimental():
    with raises("layers-experimental"):
        old_lines.layers_experimental()
    layer = tf.keras.layers.Normalization()
    layer.adapt(x)


def test_backend_functions(model):
    with raises("backend-functions"):
        old_lines.backend_functions()
    output = model(x)
    assert output.shape == (4, 2)


def test_name_with_slash():
    with raises("name-with-slash"):
        old_lines.name_with_slash()
    layer = tf.keras.layers.Dense(1, name="block_dense")
    assert layer.name == "block_dense"


def test_output_shape(model):
    with raises("output-shape"):
        old_lines.output_shape()
    shape = model.layers[0].output.shape
    assert shape == (None, 2)


def test_reduction_auto():
    with raises("reduction-auto"):
        old_lines.reduction_auto()
    loss = tf.keras.losses.MeanSquaredError(reduction="sum_over_batch_size")
    assert float(loss(x, 3 * x)) == 4
