"""Test the values, the text and the plot of a report."""

import functools
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.debugging import planted
from tests.families import keras, needs_keras3
from tf_lso.debugging import observe, statistics


@functools.cache
def report_of(name, **kwargs):
    return planted.explained(planted.CASES[name](keras), **kwargs)


class TestStatistics:
    def test_values(self):
        array = [1, -3, np.inf, -np.inf, np.nan, 0]
        values = statistics.summarize([tf.constant(array[:3]), tf.constant(array[3:])])
        assert (values.size, values.largest, values.nonfinite) == (6, 3.0, 0.5)
        assert (values.infinite, values.nan, values.kinds) == (2, 1, "inf and NaN")
        assert values.smallest == 1.0

    def test_of_no_values(self):
        for tensors in ([], [tf.zeros(0)], [tf.constant(3)]):
            values = statistics.summarize(tensors)
            assert (values.size, values.largest, values.nonfinite) == (0, 0.0, 0.0)


class TestScale:
    """The report names the scale that fits, and the share of values that become 0."""

    @pytest.mark.parametrize(
        "gradients, fitting",
        [
            ([3.0, None, 1000.0], 2.0 ** (8 + 5)),  # 1000 * 2**5 is below 2**15
            ([0.0], 2.0 ** (8 + 39)),  # values that became 0 are below 2**-24
            ([3.0, np.inf], None),
            ([np.nan], None),
            ([None], None),
        ],
    )
    def test_follows_from_the_largest_gradient(self, gradients, fitting):
        tensors = [g if g is None else tf.constant([0.0, g]) for g in gradients]
        assert observe._fitting_scale(tensors, 2.0**8) == fitting

    def test_is_not_known_if_a_layer_overflows_internally(self):
        def function(x):
            small = planted.scaled_backward(x, 1e-4)
            return planted.scaled_backward(small, 60000)

        model = planted.around(keras, planted.owned(keras, "within", function))
        report = planted.explained(planted.Case(model, None))
        assert (report.first.kind, report.fitting_scale) == (None, None)
        assert "fits this batch" not in str(report)

    @pytest.mark.parametrize("scale", [1.0, 2.0**15, 2.0**18])
    def test_below_1_is_found_and_the_layer_is_judged_at_1(self, scale):
        """At larger scales the gradients overflow in a later layer, too."""
        report = report_of("gradient_that_needs_a_scale_below_1", loss_scale=scale)
        assert report.first.layer == "bad"
        assert report.first.message.startswith("At the loss scale 1 the gradients stop")
        assert report.fitting_scale < 0.25
        assert f"about {report.fitting_scale:g} would fit" in report.first.message
        assert "min_scale" in report.first.message

    def test_that_is_reported_trains(self):
        """The message advises these arguments."""
        case = planted.CASES["gradient_that_needs_a_scale_below_1"](keras)
        scale = planted.explained(case).fitting_scale
        opt = tf_lso.LossScaleOptimizer(
            keras.optimizers.SGD(0.0), initial_scale=scale, min_scale=scale
        )
        # In a graph, TensorFlow would multiply the two factors to one beyond float16.
        case.model.compile(opt, loss=case.loss, run_eagerly=True)
        case.model.fit(case.x, case.y, verbose=0)
        assert int(opt.skipped_steps) == 0

    @pytest.mark.parametrize(("units", "kind"), [(4, "underflow"), (5, None)])
    def test_a_quarter_of_the_values_must_be_lost(self, units, kind):
        """The gradient of one of the units becomes 0."""
        factors = tf.constant([1e-7] + [1.0] * (units - 1))
        loses = planted.owned(
            keras, "loses", lambda x: planted.scaled_backward(x, factors)
        )
        first = planted.dense(keras, units, "a")
        model = planted.sequential(keras, first, loses, planted.dense(keras, 1, "b"))
        assert planted.explained(planted.Case(model, None)).first.kind == kind


def test_layers_are_in_the_order_of_the_pass_with_their_paths():
    shared = report_of("shared_layer_at_its_second_call").layers
    assert [(one.layer, one.name, one.values.nonfinite > 0) for one in shared] == [
        ("bad", "bad", False),
        ("bad", "bad", True),
        ("b", "b", True),
    ]
    nested = report_of("layer_in_a_layer_in_a_layer")
    assert nested.first.path == "block/middle/bad"
    paths = [one.layer for one in nested.layers]
    assert paths == "block block/middle block/middle/a block/middle/bad head".split()


@needs_keras3
def test_numbers_are_those_of_the_model_itself():
    report = report_of("healthy", loss_scale=64)
    hidden = 0.1 * planted.X.sum(axis=1)
    assert report.layers[0].values.largest == pytest.approx(hidden.max(), rel=1e-2)
    outputs = 0.4 * hidden[:, np.newaxis]
    assert report.loss == pytest.approx(np.mean((outputs - planted.Y) ** 2), rel=1e-2)
    bias = report.variables[-1]
    assert (bias.name.endswith("b/bias"), bias.layer) == (True, "b")
    expected = abs(np.mean(2 * (outputs - planted.Y)))
    assert bias.gradient.largest == pytest.approx(64 * expected, rel=1e-2)
    assert report.variables[0].values.largest == pytest.approx(0.1)
    assert report.layers[0].inputs.largest == pytest.approx(1.0)
    assert report.layers[1].dtype == "float16"


class TestText:
    def test_a_row_is_one_line_and_ends_with_the_whole_name(self):
        report = report_of("layer_in_a_layer_in_a_layer")
        head, table, key = str(report).split("\n\n")
        assert max(map(len, f"{head}\n{key}".splitlines())) < 80
        first, *rows = table.splitlines()
        assert [*map(str.split, [first, *rows[2:4]])] == [
            "dtype input value inf, NaN gradient inf, NaN lost Layer or variable".split(),
            "float16 1 5.73 0 % - 100 % 0 % block/middle/a".split(),
            "float16 5.73 - 100 % - 100 % 0 % block/middle/bad".split(),
        ]
        column, shown = first.index("Layer"), [*report.layers, *report.variables]
        assert [row[column:] for row in rows] == [one.name for one in shown]


class TestAdvice:
    """The advice about an overflow says whether the input, the weights or neither is large."""

    @pytest.mark.parametrize(
        "name, parts",
        [
            ("nan_in_x", ["x contains NaN"]),
            ("x_too_large_for_float16", ["too large for float16"]),
            (
                "huge_kernel",
                [
                    "Scaling the loss cannot help",
                    "values up to 5.72656, and its weights up to 60000 (",
                    "The weights are large: lower the learning rate",
                ],
            ),
            ("kernel_of_nan", ["bad/kernel"]),
            ("one_by_zero", ["a division by a value near 0"]),
            # float16 can represent 1e-7, but almost any number divided by it overflows.
            (
                "zero_by_zero",
                ["Look for a division by 0", "such as 1e-4 (1e-8 becomes 0)"],
            ),
            ("code_between_the_layers", ["a product with a large factor"]),
            (
                "gradient_times",
                [
                    "a dynamic loss scale skips the step and shrinks",
                    "a fixed one must be lowered",
                ],
            ),
            ("gradient_of_weights_alone", ["bad/kernel", "of layer 'bad'"]),
            ("gradient_of_nan", ["No loss scale helps"]),
            ("tiny_gradient", ["A larger loss scale keeps"]),
        ],
    )
    def test_of_each_kind_of_problem(self, name, parts):
        message = report_of(name).first.message
        assert [part for part in parts if part not in message] == []

    def test_a_large_factor_in_a_layer(self):
        times = planted.owned(keras, "times", lambda x: x * 2e5)
        model = planted.sequential(keras, times, planted.dense(keras, 1, "b"))
        report = planted.explained(planted.Case(model, None))
        assert (report.first.kind, report.first.layer) == ("forward overflow", "times")
        message = report.first.message
        assert "values up to 1, and it has no weights. These are not large" in message
        assert "ormalize" not in message

    def test_a_large_input(self):
        model = planted.sequential(keras, planted.dense(keras, 1, "bad", 30.0))
        report = planted.explained(planted.Case(model, None, x=planted.X * 3000))
        assert "values up to 3000" in report.first.message
        assert "The input is large: normalize it" in report.first.message

    def test_nan_of_code_between_the_layers(self):
        block, zero = planted.dense(keras, 3, "a"), lambda x: (x - x) / (x - x)
        model = planted.subclassed(keras, [block], zero)
        first = planted.explained(planted.Case(model, None)).first
        assert (first.kind, first.layer) == ("forward nan", "outer")
        assert "Look for a division by 0" in first.message
        assert "smaller" not in first.message

    def test_nan_of_a_large_input(self):
        """The layer may overflow internally, or it may compute NaN from large values."""
        log = planted.owned(keras, "log", lambda x: tf.math.log(x - 3000))
        model = planted.sequential(keras, log, planted.dense(keras, 1, "b"))
        case = planted.Case(model, None, x=planted.X * 1000)
        message = planted.explained(case).first.message
        assert "The input is large: normalize it" in message
        assert "a logarithm or root of a negative number" in message

    def test_a_layer_of_float32(self):
        exp = planted.owned(keras, "exp", lambda x: tf.exp(tf.cast(x, "float32") * 500))
        model = planted.sequential(keras, exp, planted.dense(keras, 1, "b"))
        message = planted.explained(planted.Case(model, None)).first.message
        assert "does not compute in float16" in message
        assert 'dtype="float32"' not in message

    def test_nan_in_the_weights_of_the_examples(self):
        case, loss = planted.CASES["healthy"](keras), keras.losses.MeanSquaredError()
        weights = np.array([1, np.nan, 1, 1], "float32")
        first = planted.explained(case, loss=loss, sample_weight=weights).first
        assert first.kind == "input"
        assert "sample_weight contains NaN" in first.message

    def test_a_loss_that_overflows(self):
        case = planted.CASES["healthy"](keras)
        loss = lambda y, x: tf.reduce_sum(x * 0 + 60000)  # noqa: E731
        first = planted.explained(case, loss=loss).first
        assert (first.kind, first.layer) == ("forward overflow", None)
        assert "Compute the loss in float32" in first.message


class TestPlot:
    def test_is_written_as_a_png(self, tmp_path):
        pytest.importorskip("matplotlib", reason="an optional extra")
        path = tmp_path / "gradients.png"
        report_of("kernel_of_nan").plot(path)
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_without_a_path_it_is_returned(self):
        pytest.importorskip("matplotlib", reason="an optional extra")
        figure = report_of("kernel_of_nan").plot()
        assert len(figure.axes) == 2

    def test_without_matplotlib_the_error_names_it(self, monkeypatch, tmp_path):
        report = report_of("healthy")
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match="pip install matplotlib"):
            report.plot(tmp_path / "gradients.png")
