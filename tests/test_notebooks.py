"""What a notebook shows: the values of tf_lso in a cell, and errors about missing packages."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import HAS_KERAS3, keras
from tests.processes import hiding, run
from tf_lso import debugging


@pytest.fixture(scope="module")
def report():
    dense = keras.layers.Dense
    model = keras.Sequential(
        [
            dense(4, activation="relu", dtype="mixed_float16", name="one>"),
            dense(1, dtype="float32", name="two"),
        ]
    )
    x = np.linspace(-1, 1, 8, dtype="float32").reshape(4, 2)
    model.build((None, 2))
    model.compile("sgd", "mse")
    return debugging.explain(model, x, np.ones((4, 1), "float32"))


class TestReport:
    def test_the_repr_is_one_line(self, report):
        assert repr(report) == (
            f"<Report: nothing is wrong, loss scale {report.loss_scale:g}, "
            "2 layer calls, 4 variables>"
        )

    def test_the_verdict_says_which_zeros_are_meant(self, report):
        text = " ".join(str(report).split())
        assert "few gradients that are not 0 become 0 in float16 at" in text
        assert "but are not 0 at a larger scale that fits" in text

    def test_a_plot_with_a_path_returns_nothing(self, report, tmp_path):
        pytest.importorskip("matplotlib")
        assert report.plot(tmp_path / "plot.png") is None
        assert (tmp_path / "plot.png").stat().st_size > 1000


def test_the_repr_of_a_handle_says_what_is_installed():
    with tf_lso.install() as handle:
        first = repr(handle)
        second = repr(tf_lso.install())
    generation = "Keras 3" if HAS_KERAS3 else "Keras 2"
    assert first.startswith("<tf_lso is installed: the old names lead to tf_lso, on ")
    assert f"TensorFlow {tf.__version__} with {generation}." in first
    assert first.endswith("Undo it: tf_lso.uninstall()>")
    assert second.startswith("<tf_lso was already installed")
    assert repr(handle) == "<tf_lso is not installed any more>"


WITHOUT_TENSORBOARD = """
import tensorflow as tf
import tf_lso

tf_lso.callbacks.LossScaleMonitor()
optimizer = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
for make in (
    lambda: tf_lso.callbacks.LossScaleMonitor(log_dir="logs"),
    lambda: tf_lso.summary.loss_scale(optimizer),
):
    try:
        make()
    except ImportError as error:
        print(error.name, error)
"""


@pytest.mark.slow
@pytest.mark.keras3  # TensorFlow before 2.16 cannot be imported without TensorBoard
def test_without_tensorboard_the_error_has_the_line_that_installs_it():
    lines = run(hiding("tensorboard") + WITHOUT_TENSORBOARD)
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("tensorboard ")
        assert "pip install tensorboard" in line
    assert "LossScaleMonitor(log_dir=...)" in lines[0]
    assert "tf_lso.summary.loss_scale()" in lines[1]
