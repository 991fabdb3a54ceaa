"""Kinds of models, losses, optimizers and data that can be explained, or are refused."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.debugging import planted
from tests.families import FAMILIES, GENERATIONS, KERASES, keras, keras2, needs_keras3
from tf_lso import debugging
from tf_lso.debugging import validation
from tf_lso.keras.mixed_precision import experimental

HALF, X, Y = planted.HALF, planted.X, planted.Y


@pytest.fixture(params=GENERATIONS)
def module(request):
    return KERASES[request.param]


def healthy(module):
    return planted.healthy(module).model


def explain(model, x=X, y=Y, loss="mse", **kwargs):
    return debugging.explain(model, x, y, loss=loss, **kwargs)


def subclass(module):
    """The class of a model with a layer "head" of its own."""
    return type(planted.subclassed(module, []))


def two_outputs(module):
    left = module.layers.Input((3,), name="left")
    right = module.layers.Input((2,), name="right")
    # Keras 3.0 finds the loss of an output by the name of its layer.
    outputs = {
        "a": planted.dense(module, 1, "a")(left),
        "b": planted.dense(module, 2, "b")(right),
    }
    model = module.Model({"left": left, "right": right}, outputs)
    x = {"left": X, "right": planted.batch(4, 2)}
    return model, x, {"a": Y, "b": planted.batch(4, 2)}


class TestLoss:
    def test_the_compiled_one_with_several_outputs_weights_and_what_is_added(
        self, module
    ):
        model, x, y = two_outputs(module)
        model.compile(
            "sgd", loss={"a": "mse", "b": "mae"}, loss_weights={"a": 2.0, "b": 3.0}
        )
        report = debugging.explain(model, x, y)
        outputs = model(x)
        difference = {name: np.array(outputs[name], "float32") - y[name] for name in y}
        expected = 2 * np.mean(difference["a"] ** 2) + 3 * np.mean(abs(difference["b"]))
        assert report.loss == pytest.approx(expected, rel=1e-2)

    def test_is_that_of_fit(self, module):
        penalty = module.regularizers.L2(0.5)
        first = planted.dense(module, 4, "a", kernel_regularizer=penalty)
        model = planted.sequential(module, first, planted.dense(module, 1, "b"))
        model.compile(module.optimizers.SGD(0.0), loss="mse")
        expected = model.evaluate(X, Y, verbose=0)
        for loss in (None, "mse", module.losses.MeanSquaredError()):
            assert explain(model, loss=loss).loss == pytest.approx(expected, rel=1e-2)

    def test_added_ones_alone(self, module):
        class Adding(subclass(module)):
            def call(self, x):
                self.add_loss(tf.reduce_mean(tf.cast(self.head(x), tf.float32)))
                return self.head(x)

        model = Adding()
        model(X)
        report = debugging.explain(model, X)
        assert report.loss == pytest.approx(np.mean(X.sum(1)) * 0.1, rel=1e-2)

    def test_compute_loss_of_a_subclass(self, module):
        class Own(subclass(module)):
            def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
                return 7.0 * tf.reduce_sum(tf.cast(y_pred, tf.float32))

        model = Own()
        model(X)
        model.compile("sgd")
        report = debugging.explain(model, X, Y)
        assert report.loss == pytest.approx(7 * 0.1 * X.sum(), rel=1e-2)

    def test_sparse_targets_by_name(self, module):
        softmax = planted.dense(module, 3, "a", activation="softmax")
        model, y = planted.sequential(module, softmax), np.array([0, 1, 2, 0])
        report = explain(model, y=y, loss="sparse_categorical_crossentropy")
        assert report.first.kind is None

    @pytest.mark.parametrize(
        "loss, error, message",
        [
            (None, ValueError, r'not compiled\. Pass loss="mse"'),
            (3, TypeError, "'loss' must be"),
            (lambda y, outputs: None, ValueError, "must be a scalar, but is None"),
            (lambda y, outputs: y, ValueError, r"scalar.*\(4, 1\).*reduce_mean"),
        ],
    )
    def test_that_is_refused(self, module, loss, error, message):
        with pytest.raises(error, match=message):
            explain(healthy(module), loss=loss)

    @needs_keras3
    def test_that_fails_without_targets(self):
        model = healthy(keras)
        model.compile("sgd", loss="mse")
        with pytest.raises(ValueError, match="'y' is missing"):
            debugging.explain(model, X)


class TestScale:
    def test_is_the_optimizers(self, family):
        model = healthy(KERASES[family])
        inner = FAMILIES[family].SGD(0.1)
        optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=32)
        report = explain(model, optimizer=optimizer)
        assert report.loss_scale == 32
        assert "Loss scale 32 (of LossScaleOptimizer)" in str(report)
        model.compile(optimizer, loss="mse")
        assert debugging.explain(model, X, Y).loss_scale == 32

    def test_is_what_is_passed(self):
        for scale in (8, np.float32(8), tf.constant(8.0), tf_lso.FixedLossScale(8)):
            assert validation.scale_of(scale) == (8, "as passed")

    def test_is_1_without_one(self, module):
        scales = validation.scale_of(module.optimizers.SGD()), validation.scale_of(None)
        assert [number for number, _ in scales] == [1.0, 1.0]
        assert "SGD scales no loss" in scales[0][1] and "no optimizer" in scales[1][1]

    def test_of_the_experimental_optimizer(self):
        optimizer = experimental.LossScaleOptimizer(keras2.optimizers.SGD(), 64)
        assert validation.scale_of(optimizer) == (64, "of LossScaleOptimizer")

    @needs_keras3
    def test_of_the_optimizers_of_keras(self):
        sgd = keras.optimizers.SGD(loss_scale_factor=4)
        assert validation.scale_of(sgd) == (4, "of SGD")
        scaling = keras.optimizers.LossScaleOptimizer(sgd, initial_scale=16.0)
        assert validation.scale_of(scaling) == (16, "of LossScaleOptimizer")

    @pytest.mark.parametrize(
        "wrong", [0, -1.0, np.inf, np.nan, "big", True, ...], ids=str
    )
    def test_that_is_none(self, wrong):
        with pytest.raises(ValueError, match="'loss_scale' must be a positive"):
            validation.scale_of(None, wrong)


class TestRefusals:
    def test_a_function_that_is_traced(self):
        model = healthy(keras)
        for call in (
            lambda x: debugging.explain(model, x, loss="mse"),
            lambda x: debugging.explain_gradients({"x": x}),
        ):
            with pytest.raises(RuntimeError, match="in eager code"):
                tf.function(call, autograph=False)(X)

    @pytest.mark.parametrize(
        "x, y, error, message",
        [
            (X[:0], Y[:0], ValueError, "must have examples"),
            (X, Y[:2], ValueError, "same number of examples"),
            (X, None, ValueError, "'y' is missing"),
            ([["a"] * 3] * 4, Y, ValueError, r"'x' must be.*\(None, 3\)"),
            (planted.batch(4, 5), Y, ValueError, r"'x' must be.*\(None, 3\)"),
            pytest.param(
                *([X, X], Y, ValueError, r"'x' must be.*\(None, 3\)"), id="two for one"
            ),
            ({"a": X, "b": X}, Y, ValueError, r"'x' must be.*\(None, 3\)"),
            (object(), Y, TypeError, "'x' must be arrays"),
            (tf.data.Dataset.from_tensors(X), Y, TypeError, r"next\(iter\(dataset\)\)"),
        ],
    )
    def test_data(self, module, x, y, error, message):
        with pytest.raises(error, match=message):
            explain(healthy(module), x, y)

    def test_parts_that_are_missing(self, module):
        model, x, y = two_outputs(module)
        with pytest.raises(ValueError, match="'x' must be"):
            explain(model, {"left": x["left"]}, y)
        with pytest.raises(ValueError, match="'y' must be the targets"):
            explain(model, x)

    def test_no_float16_layer(self, module):
        layer = module.layers.Dense(1, dtype="mixed_bfloat16")
        with pytest.raises(ValueError, match=r"bfloat16.*mixed_float16"):
            explain(planted.sequential(module, layer))

    def test_what_is_no_model(self):
        with pytest.raises(TypeError, match=r"'model' must be.*explain_gradients"):
            debugging.explain(lambda x: x, X, Y)

    def test_a_model_that_is_not_built(self, module):
        model = module.Sequential([planted.dense(module, 1, "a")])
        with pytest.raises(ValueError, match=r"is not built.*model\(x\)"):
            explain(model)
        assert not model.built
        model(X)
        assert explain(model).first.kind is None

    def test_several_replicas(self, mirrored2, module):
        with mirrored2.scope():
            model = healthy(module)
            with pytest.raises(RuntimeError, match=r"not in strategy\.scope"):
                explain(model)
        if module is keras2:
            with pytest.raises(RuntimeError, match=r"2 replicas.*set_weights"):
                explain(model)
        else:
            assert explain(model).first.kind is None


def test_what_is_a_function_in_a_model_is_seen_into(module):
    bad = planted.dense(module, 3, "bad", 60000)
    inner = tf.function(lambda x: bad(x))
    block = planted.owned(module, "block", lambda x, _: inner(x) * 1, [bad])
    model = planted.sequential(module, planted.dense(module, 3, "a", 2.0), block)
    report = explain(model, y=planted.batch(4, 3))
    assert (report.first.kind, report.first.layer) == ("forward overflow", "bad")


def test_masks_go_through(module):
    lstm = module.layers.LSTM(2, name="lstm", **HALF)
    model = planted.of_integers(module, lstm, mask_zero=True)
    x = np.array([[1, 2, 0], [3, 0, 0], [1, 1, 1], [4, 4, 0]], "int32")
    report = explain(model, x)
    outputs = np.array(model(x), "float32")
    assert report.loss == pytest.approx(np.mean((outputs - Y) ** 2), rel=1e-2)


def test_frozen_layers_have_no_gradient(module):
    model = healthy(module)
    model.layers[0].trainable = False
    report = explain(model)
    assert [one.layer for one in report.variables] == ["b", "b"]
    assert report.layers[0].gradient is None


def test_a_tuple_as_attribute(module):
    model = planted.subclassed(module, [])
    model.parts = (model.head, 1)
    model(X)
    assert explain(model).first.kind is None


def test_text(module):
    layers = module.layers
    words = layers.TextVectorization(output_sequence_length=2)
    words.adapt(["a b c"])
    inputs, embedding = layers.Input((), dtype="string"), layers.Embedding(5, 2, **HALF)
    last = [layers.Flatten(**HALF), planted.dense(module, 1, "b")]
    model = module.Sequential([inputs, words, embedding, *last])
    x = tf.constant(["a", "b c", "c", "a b"])
    assert explain(model, x).first.kind is None


def test_slices(module):
    model = planted.of_integers(module, module.layers.Flatten(**HALF))
    x = np.zeros((4, 3), "int32")
    (embedding, *_) = explain(model, x).variables
    assert embedding.gradient.at_scale.size == 2  # the one row, summed up


class TestGradientsAlone:
    def test_the_last_that_is_not_finite_is_first_on_the_way_back(self):
        values = {"a": [np.nan], "b": [np.inf, np.nan], "c": [1.0]}
        pairs = [*((name, tf.constant(v)) for name, v in values.items()), ("d", None)]
        report = debugging.explain_gradients(pairs, loss_scale=4)
        assert (report.first.kind, report.first.layer) == ("backward overflow", "b")
        assert report.variables[2].gradient.largest == 0.25
        assert report.variables[3].gradient is None
        assert str(report).count("a") and report.as_dict()["layers"] == []
        report = debugging.explain_gradients(dict(pairs[:1]))
        assert (report.first.kind, report.first.layer) == ("backward nan", "a")

    def test_scaled_or_not(self):
        gradients = {"a": tf.constant([2.0**-26, 2.0**-26, 1.0])}
        assert debugging.explain_gradients(gradients).first.kind == "underflow"
        unscaled = debugging.explain_gradients(gradients, loss_scale=8, scaled=False)
        assert unscaled.first.kind is None
        gradient = unscaled.variables[0].gradient
        assert (gradient.largest, gradient.largest_at_scale) == (1.0, 8.0)
        assert gradient.zero_without_scaling == pytest.approx(2 / 3)
        assert gradient.zero_with_scaling == 0.0

    def test_slices_are_summed(self):
        values, rows = tf.constant([[1.0], [2.0]]), tf.constant([1, 1])
        slices = tf.IndexedSlices(values, rows, tf.constant([3, 1]))
        report = debugging.explain_gradients({"embedding": slices})
        assert report.variables[0].gradient.largest == 3.0

    def test_the_scale_of_an_optimizer(self, family):
        optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(), initial_scale=4.0)
        gradients = {"a": tf.constant([8.0])}
        report = debugging.explain_gradients(gradients, loss_scale=optimizer)
        assert (report.loss_scale, report.variables[0].gradient.largest) == (4.0, 2.0)

    @pytest.mark.parametrize("wrong", [[tf.constant([1.0])], 3, [(1, 2)], {3: 4}])
    def test_what_has_no_names_is_refused(self, wrong):
        with pytest.raises(TypeError, match="'named_tensors' must be a dict"):
            debugging.explain_gradients(wrong)
