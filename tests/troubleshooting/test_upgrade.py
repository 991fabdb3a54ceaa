"""The entries of "After the upgrade to TensorFlow 2.16"."""

import pytest
import tensorflow as tf

from tests.families import needs_keras3
from tests.troubleshooting.page import raises

# Rows of (entry, line of an old program). In the lines, `sgd` is an optimizer of `tf.keras`.
LINES = [
    ("experimental", "tf.keras.mixed_precision.experimental.Policy('mixed_float16')"),
    ("experimental", "import tensorflow.keras.mixed_precision.experimental"),
    ("experimental", "tf.mixed_precision.experimental.FixedLossScale(128)"),
    ("experimental", "tf.train.experimental.enable_mixed_precision_graph_rewrite(sgd)"),
]
LINES_FOR_KERAS_2 = [
    ("get-scaled-loss", "Wrapper(sgd).get_scaled_loss(tf.constant(2.0))"),
    ("get-scaled-loss", "Wrapper(sgd, dynamic=False, initial_scale=128)"),
    ("dynamic-bool", "Wrapper(sgd, loss_scale='dynamic')"),
    ("lr-attribute", "tf.keras.optimizers.SGD(lr=0.1)"),
    ("lr-attribute", "sgd.lr"),
]
LINES += [pytest.param(*row, marks=needs_keras3) for row in LINES_FOR_KERAS_2]


@pytest.mark.parametrize(("entry", "line"), LINES)
def test_an_old_line_raises_the_message_of_its_entry(entry, line):
    scope = {
        "tf": tf,
        "sgd": tf.keras.optimizers.SGD(0.5),
        "Wrapper": tf.keras.mixed_precision.LossScaleOptimizer,
    }
    with raises(entry):
        exec(line, scope)
