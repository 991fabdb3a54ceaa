"""Test which models, losses, optimizers and data `debugging.explain` accepts or refuses."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.debugging import planted
from tests.families import FAMILIES, GENERATIONS, KERASES, keras, keras2, needs_keras3
from tf_lso import debugging
from tf_lso.debugging import arguments_of_explain
from tf_lso.keras.mixed_precision import experimental

HALF, X, Y = planted.HALF, planted.X, planted.Y


@pytest.fixture(params=GENERATIONS)
def module(request):
    return KERASES[request.param]


def healthy(module):
    return planted.healthy(module).model


def explain(model, x=X, y=Y, loss=planted.error, **kwargs):
    return debugging.explain(model, x, y, loss=loss, **kwargs)


def subclass(module):
    """Return the class of a subclassed model that has a layer "head"."""
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
    def test_is_the_weighted_sum_of_the_compiled_losses(self, module):
        model, x, y = two_outputs(module)
        model.compile(
            "sgd", loss={"a": "mse", "b": "mae"}, loss_weights={"a": 2.0, "b": 3.0}
        )
        report = debugging.explain(model, x, y)
        outputs = model(x)
        difference = {name: np.array(outputs[name], "float32") - y[name] for name in y}
        expected = 2 * np.mean(difference["a"] ** 2) + 3 * np.mean(abs(difference["b"]))
        assert report.loss == pytest.approx(expected, rel=1e-2)

    def test_includes_regularization_as_in_fit(self, module):
        penalty = module.regularizers.L2(0.5)
        first = planted.dense(module, 4, "a", kernel_regularizer=penalty)
        model = planted.sequential(module, first, planted.dense(module, 1, "b"))
        model.compile(module.optimizers.SGD(0.0), loss="mse")
        expected = model.evaluate(X, Y, verbose=0)
        for loss in (None, module.losses.MeanSquaredError()):
            assert explain(model, loss=loss).loss == pytest.approx(expected, rel=1e-2)

    def test_is_the_sum_of_added_losses(self, module):
        class Adding(subclass(module)):
            def call(self, x):
                self.add_loss(tf.reduce_mean(tf.cast(self.head(x), tf.float32)))
                return self.head(x)

        model = Adding()
        model(X)
        report = debugging.explain(model, X)
        assert report.loss == pytest.approx(np.mean(X.sum(1)) * 0.1, rel=1e-2)

    def test_comes_from_compute_loss_of_a_subclass(self, module):
        class Own(subclass(module)):
            def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
                return 7.0 * tf.reduce_sum(tf.cast(y_pred, tf.float32))

        model = Own()
        model(X)
        model.compile("sgd")
        report = debugging.explain(model, X, Y)
        assert report.loss == pytest.approx(7 * 0.1 * X.sum(), rel=1e-2)

    def test_sparse_targets(self, module):
        softmax = planted.dense(module, 3, "a", activation="softmax")
        model, y = planted.sequential(module, softmax), np.array([0, 1, 2, 0])
        loss = module.losses.SparseCategoricalCrossentropy()
        report = explain(model, y=y, loss=loss)
        assert report.first.kind is None

    @pytest.mark.parametrize("from_data_set", [False, True])
    def test_of_weighted_examples(self, module, from_data_set):
        model = healthy(module)
        model.compile(module.optimizers.SGD(0.0), loss="mse")
        batch = X, Y, np.array([0.0, 0.0, 4.0, 0.0], "float32")
        if from_data_set:
            batch = [next(iter(tf.data.Dataset.from_tensors(batch)))]
        report = debugging.explain(model, *batch)
        expected = float(planted.error(Y[2:3], model(X)[2:3]))
        assert report.loss == pytest.approx(expected, rel=1e-2)

    def test_object_of_keras_gets_the_example_weights(self, module):
        model, weights = healthy(module), np.array([0.0, 0.0, 4.0, 0.0], "float32")
        loss = module.losses.MeanSquaredError()
        report = debugging.explain(model, X, Y, weights, loss=loss)
        expected = float(planted.error(Y[2:3], model(X)[2:3]))
        assert report.loss == pytest.approx(expected, rel=1e-2)

    @pytest.mark.parametrize(
        "loss, error, message",
        [
            (None, ValueError, "but got: None. Compile the model"),
            ("mse", TypeError, r"MeanSquaredError\(\), but got: 'mse'"),
            (lambda y, outputs: None, ValueError, "must be a scalar, but got: None"),
            (lambda y, outputs: y, ValueError, r"scalar, but got: .*\(4, 1\)"),
        ],
    )
    def test_of_a_wrong_kind_is_refused(self, module, loss, error, message):
        with pytest.raises(error, match=message):
            explain(healthy(module), loss=loss)


class TestScale:
    def test_is_the_scale_of_the_optimizer(self, family):
        model = healthy(KERASES[family])
        inner = FAMILIES[family].SGD(0.1)
        optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=32)
        assert explain(model, loss_scale=optimizer).loss_scale == 32
        model.compile(optimizer, loss="mse")
        assert debugging.explain(model, X, Y).loss_scale == 32

    def test_is_the_argument(self):
        for scale in (8, np.float32(8), tf.constant(8.0), tf_lso.FixedLossScale(8)):
            assert arguments_of_explain.scale_of(scale, None) == 8

    def test_is_1_without_one(self, module):
        assert arguments_of_explain.scale_of(None, module.optimizers.SGD()) == 1
        assert arguments_of_explain.scale_of(None, None) == 1

    def test_of_the_experimental_optimizer(self):
        optimizer = experimental.LossScaleOptimizer(keras2.optimizers.SGD(), 64)
        assert arguments_of_explain.scale_of(None, optimizer) == 64

    @needs_keras3
    def test_of_the_optimizers_of_keras(self):
        sgd = keras.optimizers.SGD(loss_scale_factor=4)
        assert arguments_of_explain.scale_of(None, sgd) == 4
        scaling = keras.optimizers.LossScaleOptimizer(sgd, initial_scale=16.0)
        assert arguments_of_explain.scale_of(None, scaling) == 16

    @pytest.mark.parametrize("wrong", [0, -1.0, np.inf, np.nan])
    def test_of_a_wrong_value_is_refused(self, wrong):
        with pytest.raises(ValueError, match="'loss_scale' must be a positive"):
            arguments_of_explain.scale_of(wrong, None)


class TestRefusals:
    def test_a_function_that_is_traced(self):
        model = healthy(keras)
        traced = tf.function(lambda x: explain(model, x), autograph=False)
        with pytest.raises(RuntimeError, match="in eager code"):
            traced(X)

    def test_a_whole_data_set(self, module):
        dataset = tf.data.Dataset.from_tensors((X, Y))
        with pytest.raises(TypeError, match=r"next\(iter\(dataset\)\)"):
            debugging.explain(healthy(module), dataset, loss=planted.error)

    def test_an_empty_batch(self, module):
        model = healthy(module)
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match="must contain examples"):
            debugging.explain(model, X[:0], Y[:0])

    def test_no_float16_layer(self, module):
        layer = module.layers.Dense(1, dtype="mixed_bfloat16")
        with pytest.raises(ValueError, match=r"bfloat16.*mixed_float16"):
            explain(planted.sequential(module, layer))

    def test_a_function_instead_of_a_model(self):
        with pytest.raises(TypeError, match="'model' must be a model of Keras"):
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
            with pytest.raises(RuntimeError, match=r"outside strategy\.scope"):
                explain(model)
        if module is keras2:
            with pytest.raises(RuntimeError, match=r"2 replicas.*set_weights"):
                explain(model)
        else:
            assert explain(model).first.kind is None


def test_layers_in_a_tf_function_are_observed(module):
    bad = planted.dense(module, 3, "bad", 60000)
    inner = tf.function(lambda x: bad(x))
    block = planted.owned(module, "block", lambda x, _: inner(x) * 1, [bad])
    model = planted.sequential(module, planted.dense(module, 3, "a", 2.0), block)
    report = explain(model, y=planted.batch(4, 3))
    assert (report.first.kind, report.first.layer) == ("forward overflow", "bad")


def test_masks_reach_the_layers(module):
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
    model.layers[1].trainable = False
    report = explain(model)
    assert (report.variables, report.fitting_scale) == ([], None)
    assert report.first.kind is None


def test_a_model_without_layers_has_a_row_of_its_own(module):
    class Own(module.Model):
        def __init__(self):
            super().__init__(name="own", **HALF)
            self.kernel = self.add_weight(name="kernel", shape=(3, 1))

        def call(self, x):
            return x @ tf.cast(self.kernel, x.dtype)

    model = Own()
    model(X)
    assert [one.name for one in explain(model).layers] == ["own"]


def test_a_model_may_have_a_tuple_of_layers(module):
    model = planted.subclassed(module, [])
    model.parts = (model.head, 1)
    model(X)
    assert explain(model).first.kind is None


def test_a_model_of_text_is_explained(module):
    layers = module.layers
    words = layers.TextVectorization(output_sequence_length=2)
    words.adapt(["a b c"])
    inputs, embedding = layers.Input((), dtype="string"), layers.Embedding(5, 2, **HALF)
    last = [layers.Flatten(**HALF), planted.dense(module, 1, "b")]
    model = module.Sequential([inputs, words, embedding, *last])
    x = tf.constant(["a", "b c", "c", "a b"])
    assert explain(model, x).first.kind is None


def test_the_gradient_of_an_embedding_is_summed_by_rows(module):
    model = planted.of_integers(module, module.layers.Flatten(**HALF))
    x = np.zeros((4, 3), "int32")
    (embedding, *_) = explain(model, x).variables
    assert embedding.gradient.size == 2  # all examples use one row
