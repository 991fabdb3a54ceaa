"""What a report holds, prints and draws."""

import functools
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.debugging import planted
from tests.families import keras, needs_keras3
from tf_lso.debugging import plot, statistics


@functools.cache
def report_of(name, **kwargs):
    return planted.explained(planted.CASES[name](keras), **kwargs)


class TestStatistics:
    def test_values(self):
        values = statistics.values_of(np.array([1, -3, np.inf, -np.inf, np.nan, 0]))
        assert (values.size, values.largest, values.nonfinite) == (6, 3.0, 0.5)
        assert (values.infinite, values.nan) == (2, 1)
        assert values.exponents == {0: 1, 1: 1}

    def test_a_gradient_at_a_scale(self):
        at_scale = np.array([0.0, 2.0**-20, 512.0, 0.0], "float32")
        fitting = np.array([2.0**-26, 2.0**-16, 8192.0, 0.0], "float32")
        gradient = statistics.gradient_of(at_scale, fitting, 256.0)
        assert (gradient.unscaled.largest, gradient.at_scale.largest) == (32.0, 512.0)
        # 2**-24 is the smallest float16: 2**-34 is lost with and without scaling. What is
        # 0 at the fitting scale is not lost.
        assert gradient.lost_without_scaling == pytest.approx(1 / 3)
        assert gradient.lost == pytest.approx(1 / 3)
        assert gradient.unscaled.exponents == {-34: 1, -24: 1, 5: 1}
        assert gradient.at_scale.exponents == {-20: 1, 9: 1}

    def test_nothing_is_known_of_what_is_all_zero_or_empty(self):
        for array in (np.zeros(3), np.zeros(0)):
            gradient = statistics.gradient_of(array, array, 1.0)
            assert (gradient.unscaled.largest, gradient.lost) == (0.0, 0.0)
            assert statistics.values_of(array).nonfinite == 0.0
            assert statistics.values_of(array).exponents == {}


def test_layers_are_in_the_order_of_the_pass_with_their_paths_and_calls():
    shared = report_of("shared_layer_at_its_second_call").layers
    assert [(one.layer, one.call, one.outputs.nonfinite > 0) for one in shared] == [
        ("bad", 1, False),
        ("bad", 2, True),
        ("b", 1, True),
    ]
    nested = report_of("layer_in_a_layer_in_a_layer")
    assert nested.first.path == "block/middle/bad"
    paths = [one.path for one in nested.layers]
    assert paths == "block block/middle block/middle/a block/middle/bad head".split()


@needs_keras3
def test_numbers_are_those_of_the_model_itself():
    report = report_of("healthy", loss_scale=64)
    hidden = 0.1 * planted.X.sum(axis=1)
    assert report.layers[0].outputs.largest == pytest.approx(hidden.max(), rel=1e-2)
    outputs = 0.4 * hidden[:, np.newaxis]
    assert report.loss == pytest.approx(np.mean((outputs - planted.Y) ** 2), rel=1e-2)
    bias = report.variables[-1]
    assert (bias.name.endswith("b/bias"), bias.layer) == (True, "b")
    expected = abs(np.mean(2 * (outputs - planted.Y)))
    assert bias.gradient.unscaled.largest == pytest.approx(expected, rel=1e-2)
    assert bias.gradient.at_scale.largest == pytest.approx(64 * expected, rel=1e-2)
    assert report.variables[0].values.largest == pytest.approx(0.1)
    assert report.layers[0].inputs.largest == pytest.approx(1.0)
    assert report.layers[1].dtype == "float16"


class TestText:
    def test_a_row_is_one_line_and_ends_with_the_whole_name(self):
        report = report_of("layer_in_a_layer_in_a_layer")
        head, layers, variables, key = str(report).split("\n\n")
        assert max(map(len, f"{head}\n{key}".splitlines())) < 80
        first, *rows = layers.splitlines()
        assert [*map(str.split, [first, *rows[2:4]])] == [
            ["dtype", "input", "output", "inf,", "NaN", "Layer"],
            ["float16", "1", "5.73", "0", "%", "block/middle/a"],
            ["float16", "5.73", "-", "100", "%", "block/middle/bad"],
        ]
        column = first.index("Layer")
        assert [row[column:] for row in rows] == [one.path for one in report.layers]
        assert len(variables.splitlines()) == 1 + len(report.variables)

    def test_says_what_is_wrong_and_what_to_do(self):
        text = " ".join(str(report_of("gradient_times")).split())
        assert "First: backward overflow in layer 'bad'." in text
        assert "a dynamic loss scale skips the step and shrinks" in text
        assert "Scaling the loss cannot help" in report_of("huge_kernel").first.message
        assert "beyond" not in text
        assert "A larger loss scale keeps" in report_of("tiny_gradient").first.message
        message = report_of("kernel_beyond_float16").first.message
        assert "bad/kernel" in message and "65504" in message
        assert "bad/kernel" in report_of("kernel_of_nan").first.message
        assert "y holds inf" in report_of("inf_in_y").first.message


class TestAdvice:
    """The advice about an overflow names what is large: the input, the weights, or neither."""

    def test_a_large_factor_in_a_layer_is_neither(self):
        times = planted.owned(keras, "times", lambda x: x * 2e5)
        model = planted.sequential(keras, times, planted.dense(keras, 1, "b"))
        report = planted.explained(planted.Case(model, None))
        assert (report.first.kind, report.first.layer) == ("forward overflow", "times")
        message = report.first.message
        assert "The operation Mul makes the first" in message
        assert "values up to 1, and it has no weights. These are not large" in message
        assert "ormalize" not in message

    def test_a_large_input(self):
        model = planted.sequential(keras, planted.dense(keras, 1, "bad", 30.0))
        report = planted.explained(planted.Case(model, None, x=planted.X * 3000))
        assert "values up to 3000" in report.first.message
        assert "The input is large: normalize it" in report.first.message

    def test_large_weights(self):
        message = report_of("huge_kernel").first.message
        assert "values up to 5.72656, and its weights up to 60000 (" in message
        assert "The weights are large: lower the learning rate" in message

    def test_a_division(self):
        assert "It divides by 0" in report_of("one_by_zero").first.message

    def test_a_layer_of_float32(self):
        exp = planted.owned(keras, "exp", lambda x: tf.exp(tf.cast(x, "float32") * 500))
        model = planted.sequential(keras, exp, planted.dense(keras, 1, "b"))
        message = planted.explained(planted.Case(model, None)).first.message
        assert "does not compute in float16" in message
        assert 'dtype="float32"' not in message

    def test_a_cast_of_the_input(self):
        report = report_of("x_too_large_for_float16")
        assert "too large for float16" in report.first.message

    def test_a_loss_that_overflows(self):
        case = planted.CASES["healthy"](keras)
        loss = lambda y, x: tf.reduce_sum(x * 0 + 60000)  # noqa: E731
        first = planted.explained(case, loss=loss).first
        assert (first.kind, first.layer) == ("forward overflow", None)
        assert "Compute the loss in float32" in first.message


def steps(axes):
    """The histograms in a panel of a picture."""
    return [one for one in axes.patches if hasattr(one, "get_data") and one.get_data()]


class TestPlot:
    @pytest.mark.parametrize(
        "name", ["tiny_gradient", "kernel_of_nan", "huge_kernel", "healthy"]
    )
    def test_is_a_picture(self, tmp_path, name):
        pytest.importorskip("matplotlib", reason="an optional extra")
        path = tmp_path / "gradients.png"
        report_of(name).plot(path)
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_shows_an_overflow_of_the_forward_pass(self):
        pytest.importorskip("matplotlib", reason="an optional extra")
        report = report_of("huge_kernel")
        outputs, gradients = report.plot().axes
        # Row 0 is "a" with finite outputs, row 1 "bad" and row 2 "b", both all inf. No
        # gradient is finite. A bar of a row stands on its number and has a height of 0.85.
        bars = {int(bar.get_data().baseline): bar.get_data() for bar in steps(outputs)}
        assert bars[0].edges.max() < plot.OVERFLOW < bars[1].edges.min()
        assert bars[1].values == pytest.approx([1 - 0.85])
        assert bars[2].values == pytest.approx([2 - 0.85])
        assert (
            min(bar.get_data().edges.min() for bar in steps(gradients)) > plot.OVERFLOW
        )
        labels = outputs.get_yticklabels()
        marked = [one.get_text() for one in labels if one.get_weight() == "bold"]
        assert marked == ["bad"]

    def test_without_matplotlib_the_error_names_it(self, monkeypatch, tmp_path):
        report = report_of("healthy")
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match="pip install matplotlib"):
            report.plot(tmp_path / "gradients.png")
