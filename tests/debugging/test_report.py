"""Test the values, the text and the plot of a report."""

import functools
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.debugging import planted
from tests.families import keras, needs_keras3
from tf_lso.debugging import observe, plot, statistics


@functools.cache
def report_of(name, **kwargs):
    return planted.explained(planted.CASES[name](keras), **kwargs)


class TestStatistics:
    def test_values(self):
        array = [1, -3, np.inf, -np.inf, np.nan, 0]
        values = statistics.values_of([tf.constant(array[:3]), tf.constant(array[3:])])
        assert (values.size, values.largest, values.nonfinite) == (6, 3.0, 0.5)
        assert (values.infinite, values.nan, values.kinds) == (2, 1, "inf and NaN")
        assert values.smallest == 1.0

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
    def test_of_each_dtype(self, dtype):
        values = statistics.values_of([tf.constant([2.0**-14, 0.0], dtype)])
        assert (values.size, values.smallest) == (2, 2.0**-14)

    def test_of_no_values(self):
        for tensors in ([], [tf.zeros(0)], [tf.constant(3)]):
            values = statistics.values_of(tensors)
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
        assert report.first.message.startswith("At the loss scale 1 gradients cease")
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

    def test_values_that_are_not_0_at_the_other_scale_are_lost(self):
        at_scale = tf.constant([0.0, 2.0**-20, 512.0, 0.0])
        other = tf.constant([2.0**-26, 2.0**-16, 8192.0, 0.0])
        assert observe._lost(at_scale, other) == pytest.approx(1 / 3)
        assert observe._lost(tf.zeros(3), tf.zeros(3)) == 0.0
        assert observe._lost(tf.constant(0.0), tf.constant(1.0)) == 1.0

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

    def test_a_row_has_the_largest_finite_value_beside_values_of_inf(self):
        times = planted.owned(keras, "times", lambda x: x * 60000 * 1.25)
        model = planted.sequential(keras, times, planted.dense(keras, 1, "b"))
        report = planted.explained(planted.Case(model, None))
        _, row, *_ = str(report).split("\n\n")[1].splitlines()
        assert row.split()[:5] == "float16 1 6.48e+04 25 %".split()

    def test_says_what_is_wrong_and_what_to_do(self):
        text = " ".join(str(report_of("gradient_times")).split())
        assert "First: backward overflow in layer 'bad'." in text
        assert "a dynamic loss scale skips the step and shrinks" in text
        assert "a fixed one must be lowered" in text
        assert "Scaling the loss cannot help" in report_of("huge_kernel").first.message
        message = report_of("norm_at_zero_backward").first.message
        assert "No loss scale helps" in message
        assert "A larger loss scale keeps" in report_of("tiny_gradient").first.message
        message = report_of("gradient_of_weights_alone").first.message
        assert re.search("bad/kernel(:0)? of layer 'bad'", message), message
        message = report_of("kernel_beyond_float16").first.message
        assert "bad/kernel" in message and "65504" in message
        assert "bad/kernel" in report_of("kernel_of_nan").first.message
        assert "y contains inf" in report_of("inf_in_y").first.message


class TestAdvice:
    """The advice about an overflow says whether the input, the weights or neither is large."""

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

    def test_large_weights(self):
        message = report_of("huge_kernel").first.message
        assert "values up to 5.72656, and its weights up to 60000 (" in message
        assert "The weights are large: lower the learning rate" in message

    def test_a_division(self):
        message = report_of("one_by_zero").first.message
        assert "a division by a value near 0" in message
        message = report_of("zero_by_zero").first.message
        assert "Look for a division by 0" in message
        # float16 can represent 1e-7, but almost any number divided by it overflows.
        assert "such as 1e-4 (1e-8 becomes 0)" in message

    def test_code_between_the_layers(self):
        """The advice about an overflow differs from the advice about a NaN."""
        large = report_of("code_between_the_layers").first.message
        assert "a product with a large factor, a division by a value near 0" in large
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

    def test_a_cast_of_the_input(self):
        report = report_of("x_too_large_for_float16")
        assert "too large for float16" in report.first.message

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


def _last_bars(axes):
    """Return {row: (begin, end)} of the last bar of each row in a panel of the plot."""
    bars = [bar for container in axes.containers for bar in container]
    return {
        round(bar.get_y() + bar.get_height() / 2): (
            bar.get_x(),
            bar.get_x() + bar.get_width(),
        )
        for bar in bars
    }


class TestPlot:
    @pytest.mark.parametrize(
        "name", ["tiny_gradient", "kernel_of_nan", "huge_kernel", "healthy"]
    )
    def test_is_written_as_a_png(self, tmp_path, name):
        pytest.importorskip("matplotlib", reason="an optional extra")
        path = tmp_path / "gradients.png"
        report_of(name).plot(path)
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_shows_an_overflow_of_the_forward_pass(self):
        pytest.importorskip("matplotlib", reason="an optional extra")
        report = report_of("huge_kernel")
        outputs, gradients = report.plot().axes
        # Row 0 is the layer "a", whose outputs are finite. Row 1 is "bad" and row 2 is "b".
        # Their outputs are all inf. No gradient is finite.
        bars = _last_bars(outputs)
        (_, end_of_a), (begin_of_bad, _), (begin_of_b, _) = bars[0], bars[1], bars[2]
        assert end_of_a < plot.OVERFLOW < min(begin_of_bad, begin_of_b)
        assert min(begin for begin, _ in _last_bars(gradients).values()) > plot.OVERFLOW
        labels = outputs.get_yticklabels()
        marked = [one.get_text() for one in labels if one.get_weight() == "bold"]
        assert marked == ["bad"]

    def test_without_matplotlib_the_error_names_it(self, monkeypatch, tmp_path):
        report = report_of("healthy")
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match="pip install matplotlib"):
            report.plot(tmp_path / "gradients.png")
