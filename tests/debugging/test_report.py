"""What a report holds, prints and draws."""

import functools
import json
import sys

import numpy as np
import pytest

from tests.debugging import planted
from tests.families import keras, needs_keras3
from tf_lso.debugging import statistics


@functools.cache
def report_of(name, **kwargs):
    return planted.explained(planted.CASES[name](keras), **kwargs)


class TestStatistics:
    def test_values(self):
        values = statistics.values_of(np.array([1, -3, np.inf, -np.inf, np.nan, 0]))
        expected = dict(size=6, largest=3.0, infinite=2, nan=1, nonfinite=0.5)
        assert vars(values) == expected

    def test_a_gradient_at_a_scale(self):
        at_scale = np.array([0.0, 2.0**-20, 512.0, 0.0], "float32")
        fitting = np.array([2.0**-26, 2.0**-16, 8192.0, 0.0], "float32")
        gradient = statistics.gradient_of(at_scale, 16.0, fitting, 256.0)
        assert (gradient.largest, gradient.largest_at_scale) == (32.0, 512.0)
        # 2**-24 is the smallest float16: 2**-34 is 0 without scaling, as is 0 itself.
        assert gradient.zero_without_scaling == 0.5
        assert gradient.zero_with_scaling == 0.5
        assert gradient.underflowed == pytest.approx(1 / 3)
        assert gradient.headroom == 6  # 512 * 2**6 = 2**15 fits, 2**16 does not
        assert gradient.exponents == {-34: 1, -24: 1, 5: 1}

    @pytest.mark.parametrize("value", [65504.0, 65505.0, 1e-7, 3.0])
    def test_headroom_is_the_last_power_of_two_that_fits(self, value):
        power = statistics.headroom(value)
        assert value * 2.0**power <= statistics.FLOAT16_MAX < value * 2.0 ** (power + 1)

    def test_nothing_is_known_of_what_is_all_zero_or_empty(self):
        for array in (np.zeros(3), np.zeros(0)):
            gradient = statistics.gradient_of(array, 1.0, array, 1.0)
            assert (gradient.largest, gradient.headroom) == (0.0, None)
            assert statistics.values_of(array).nonfinite == 0.0


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
    assert bias.gradient.largest == pytest.approx(expected, rel=1e-2)
    assert bias.gradient.largest_at_scale == 64 * bias.gradient.largest
    assert report.layers[1].dtype == "float16"


class TestText:
    def test_a_row_is_one_line_and_ends_with_the_whole_name(self):
        report = report_of("layer_in_a_layer_in_a_layer")
        head, layers, variables, key = str(report).split("\n\n")
        assert max(map(len, f"{head}\n{key}".splitlines())) < 80
        first, *rows = layers.splitlines()
        assert [*map(str.split, [first, *rows[2:4]])] == [
            ["dtype", "largest", "nonfinite", "Output", "of", "layer"],
            ["float16", "5.73", "0", "%", "block/middle/a"],
            ["float16", "-", "100", "%", "block/middle/bad"],
        ]
        column = first.index("Output")
        assert [row[column:] for row in rows] == [one.path for one in report.layers]
        assert len(variables.splitlines()) == 1 + len(report.variables)

    def test_says_what_is_wrong_and_what_to_do(self):
        text = " ".join(str(report_of("gradient_times")).split())
        assert "First: backward overflow in layer 'bad'." in text
        assert "a dynamic loss scale skips the step and shrinks" in text
        assert "Scaling the loss cannot help" in report_of("huge_kernel").first.message
        assert "beyond" not in text
        assert "up to 2**" in report_of("tiny_gradient").first.message
        message = report_of("kernel_beyond_float16").first.message
        assert "bad/kernel" in message and "65504" in message
        assert "bad/kernel" in report_of("kernel_of_nan").first.message
        assert "y holds inf" in report_of("inf_in_y").first.message


def test_the_dict_is_plain_json():
    report = report_of("kernel_of_nan")
    read = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert read["first"]["layer"] == "bad"
    assert read["loss"] is None  # NaN
    assert read["layers"][0]["outputs"]["nonfinite"] == 1.0
    assert read["variables"][0]["gradient"]["at_scale"]["size"] == 12


class TestPlot:
    @pytest.mark.parametrize("name", ["tiny_gradient", "kernel_of_nan", "healthy"])
    def test_is_a_picture(self, tmp_path, name):
        pytest.importorskip("matplotlib", reason="an optional extra")
        path = tmp_path / "gradients.png"
        report_of(name).plot(path)
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_without_matplotlib_the_error_names_it(self, monkeypatch, tmp_path):
        report = report_of("healthy")
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match="pip install matplotlib"):
            report.plot(tmp_path / "gradients.png")
