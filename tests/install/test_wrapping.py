"""Optimizers of models that compute in float16 are wrapped, or a warning names them."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests import families
from tests.families import keras, keras2, needs_keras3, number
from tf_lso import policies
from tf_lso.frameworks import keras_versions, log
from tf_lso.keras.mixed_precision import experimental
from tf_lso.optimizers import wrapping

X, Y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
# Keras's own classes. Under `install()` these names lead to tf_lso.
OWN_WRAPPERS = {
    module: module.mixed_precision.LossScaleOptimizer for module in (keras, keras2)
}


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.setattr(wrapping, "_once", log.Once())
    with tf_lso.install():
        yield


@pytest.fixture(params=["keras3", "new"])
def family(request):
    """A family of each Keras. The same functions wrap the legacy optimizers of Keras 2."""
    return request.param


@pytest.fixture
def module(family):
    """The module of the Keras to which the family belongs."""
    return families.KERASES[family]


@pytest.fixture
def optimizers(family):
    return families.FAMILIES[family]


def make_model(module, dtype="mixed_float16"):
    """Return a model with the policy float32. Its last layer has the policy `dtype`."""
    body, head = module.layers.Dense(3), module.layers.Dense(1, dtype=dtype)
    return module.Sequential([module.layers.InputLayer((2,)), body, head])


def compiled_model(module, optimizer, dtype="mixed_float16", **kwargs):
    model = make_model(module, dtype)
    model.compile(optimizer, "mse", **kwargs)
    return model


def is_wrapped(optimizer):
    return isinstance(optimizer, tf_lso.LossScaleOptimizer)


def policies_of(module):
    return policies.for_package(keras_versions.package_of(module))


def policy_without_loss_scale(module):
    return policies_of(module).ExperimentalPolicy("mixed_float16", None)


class TestWrap:
    @pytest.mark.parametrize("dtype", ["mixed_float16", "float16"])
    def test_wraps_if_a_layer_computes_in_float16(self, module, optimizers, dtype):
        inner = optimizers.SGD(0.1)
        optimizer = tf_lso.wrap(inner, make_model(module, dtype))
        assert is_wrapped(optimizer)
        assert optimizer.inner_optimizer is inner
        assert optimizer.dynamic and float(optimizer.loss_scale) == 2.0**15

    def test_wraps_if_only_the_model_itself_computes_in_float16(
        self, module, optimizers
    ):
        class WithoutLayers(module.Model):
            def build(self, shape):
                self.w = self.add_weight(name="w", shape=shape[1:])

        model = WithoutLayers(dtype="mixed_float16")
        assert is_wrapped(tf_lso.wrap(optimizers.SGD(0.1), model))

    def test_returns_the_optimizer_if_no_policy_needs_a_scale(self, module, optimizers):
        inner = optimizers.SGD(0.1)
        without_scale = policy_without_loss_scale(module)
        for dtype in ("float32", "mixed_bfloat16", "float64", without_scale):
            assert tf_lso.wrap(inner, make_model(module, dtype)) is inner

    def test_returns_an_optimizer_that_is_already_wrapped(
        self, module, optimizers, caplog
    ):
        for wrapper in (tf_lso.LossScaleOptimizer, OWN_WRAPPERS[module]):
            wrapped = wrapper(optimizers.SGD())
            assert tf_lso.wrap(wrapped, make_model(module)) is wrapped
        assert "Give only one" not in caplog.text

    def test_uses_the_loss_scale_of_a_policy(self, module, optimizers):
        policy = policies_of(module).ExperimentalPolicy("mixed_float16", 128)
        optimizer = tf_lso.wrap(optimizers.SGD(), make_model(module, policy))
        assert isinstance(optimizer, experimental.LossScaleOptimizer)
        assert optimizer.loss_scale is policy.loss_scale

    def test_wraps_if_only_the_models_own_policy_needs_no_scale(
        self, module, optimizers
    ):
        """The policy float32 of the model has no loss scale, but a layer needs one."""
        policies_of(module).set_policy("float32")
        try:
            model = make_model(module)
        finally:
            policies_of(module).set_global_policy(None)
        assert is_wrapped(tf_lso.wrap(optimizers.SGD(), model))

    @pytest.mark.parametrize(
        ("own", "loss_scale", "of_layer", "expected"),
        [
            ("float32", 8, "float32", 8.0),
            ("mixed_float16", 8, "mixed_float16", 8.0),
            ("mixed_float16", None, "mixed_float16", None),
            ("float32", None, "mixed_float16", 2.0**15),
        ],
    )
    def test_the_policy_of_the_model_itself_comes_first(
        self, module, optimizers, own, loss_scale, of_layer, expected
    ):
        api = policies_of(module)
        api.set_policy(api.ExperimentalPolicy(own, loss_scale))
        try:
            model = make_model(module, of_layer)
        finally:
            api.set_global_policy(None)
        optimizer = tf_lso.wrap(optimizers.SGD(), model)
        assert is_wrapped(optimizer) == (expected is not None)
        if expected is not None:
            assert float(optimizer.loss_scale) == expected

    def test_a_layer_without_a_scale_does_not_speak_for_another(
        self, module, optimizers
    ):
        model = make_model(module, policy_without_loss_scale(module))
        model.add(module.layers.Dense(1, dtype="mixed_float16"))
        assert is_wrapped(tf_lso.wrap(optimizers.SGD(), model))

    def test_refuses_other_types(self, module, optimizers):
        with pytest.raises(TypeError, match="'optimizer' must be an instance"):
            tf_lso.wrap("sgd", make_model(module))
        with pytest.raises(TypeError, match="'model' must be a model or layer"):
            tf_lso.wrap(optimizers.SGD(), "model")


class TestCompile:
    def test_warns_about_pure_float16_layers_and_does_not_wrap(
        self, module, optimizers, caplog
    ):
        """TensorFlow 2.0-2.15 did not wrap in this case either."""
        model = compiled_model(module, optimizers.SGD(0.1), "float16")
        assert not is_wrapped(model.optimizer)
        model.fit(X, Y, verbose=0)
        assert "scales no loss" in caplog.text

    @pytest.mark.parametrize(
        ("scale_of_the_policy", "warns"), [(8, False), ("dynamic", True)]
    )
    def test_warns_of_two_scales_if_they_differ(
        self, module, optimizers, scale_of_the_policy, warns, caplog
    ):
        optimizer = experimental.LossScaleOptimizer(optimizers.SGD(), 8)
        policy = policies_of(module).ExperimentalPolicy(
            "mixed_float16", scale_of_the_policy
        )
        assert tf_lso.wrap(optimizer, make_model(module, policy)) is optimizer
        assert ("Give only one of them" in caplog.text) == warns

    @needs_keras3
    def test_keras_does_not_wrap_what_tf_lso_leaves_bare(self):
        # The policy has the loss scale None. Keras 3 itself does not know such policies, and
        # would wrap the optimizer.
        model = keras.Model(dtype=policy_without_loss_scale(keras))
        optimizer = keras.optimizers.SGD()
        model.compile(optimizer, "mse")
        assert model.optimizer is optimizer

    def test_wraps_again_when_called_again_with_the_same_optimizer(
        self, module, optimizers
    ):
        model, inner = make_model(module), optimizers.Adam(0.1)
        compiled_model(module, inner)  # another model has wrapped `inner` before
        for steps in (1, 2):
            model.compile(inner, "mse")
            assert model.optimizer.inner_optimizer is inner
            model.fit(X, Y, verbose=0)
            assert number(model.optimizer.iterations) == steps
            assert np.isfinite(model.get_weights()[0]).all()

    def test_wraps_if_only_some_float16_layers_have_float32_variables(
        self, module, optimizers
    ):
        model = make_model(module, "mixed_float16")
        model.add(module.layers.Dense(1, dtype="float16"))
        model.compile(optimizers.SGD(0.1), "mse")
        assert is_wrapped(model.optimizer)

    @needs_keras3
    def test_a_loss_scale_of_a_policy_overrides_auto_scale_loss(self):
        policy = policies_of(keras).ExperimentalPolicy("mixed_float16", 16)
        model = compiled_model(keras, "sgd", policy, auto_scale_loss=False)
        assert float(model.optimizer.loss_scale) == 16.0

    @needs_keras3
    @pytest.mark.parametrize("auto_scale_loss", [True, False])
    def test_accepts_all_arguments_by_position(self, auto_scale_loss):
        model = make_model(keras)
        model.compile("sgd", "mse", None, None, None, True, 1, False, auto_scale_loss)
        assert model.run_eagerly
        assert is_wrapped(model.optimizer) is auto_scale_loss

    def test_wraps_in_a_graph_of_tensorflow_1(self):
        with tf.Graph().as_default():
            model = compiled_model(keras2, "sgd")
        assert is_wrapped(model.optimizer)

    @needs_keras3
    def test_accepts_a_model_without_an_optimizer(self):
        assert compiled_model(keras, None).optimizer is None

    def test_leaves_optimizers_of_tensorflow_1_to_keras_2(self):
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        model = compiled_model(keras2, optimizer, "float32")
        assert model.optimizer.optimizer is optimizer


def gan(module, dtype):
    """Return a model with two optimizers, which `Model.compile` does not get."""

    class Gan(module.Model):
        def __init__(self):
            super().__init__()
            self.generator = make_model(module, dtype)

        def compile(self, one, other, **kwargs):
            super().compile(**kwargs)
            self.one, self.others = one, {"other": other}

        def train_step(self, data):
            return {"loss": 0.0}

    return Gan()


class TestGetOptimizer:
    """`compile` of TensorFlow 2.4-2.15 called the method `_get_optimizer`, and programs did."""

    def test_wraps_all_optimizers_of_a_float16_model(self, module, optimizers):
        model, inner = gan(module, "mixed_float16"), optimizers.Adam()
        assert model._get_optimizer(inner).inner_optimizer is inner
        others = model._get_optimizer({"a": optimizers.SGD(0.1), "b": "sgd"})
        assert is_wrapped(others["a"]) and is_wrapped(others["b"])

    def test_wraps_no_optimizer_of_a_float32_model(self, module, optimizers):
        model, optimizer = gan(module, "float32"), optimizers.Adam()
        assert model._get_optimizer(optimizer) is optimizer
        (other,) = model._get_optimizer(["sgd"])
        assert not is_wrapped(other)


class TestOptimizersThatCompileDoesNotGet:
    def test_a_warning_names_each_optimizer_once(self, module, optimizers, caplog):
        model = gan(module, "mixed_float16")
        model.compile(optimizers.SGD(), optimizers.Adam())
        model.more, model.last = [optimizers.RMSprop()], (optimizers.Adagrad(),)
        model.fit(X, Y, verbose=0)
        model.fit(X, Y, verbose=0)
        assert caplog.text.count("scales no loss") == 4
        assert "Gan.one (SGD)" in caplog.text
        assert "Gan.others (Adam)" in caplog.text
        assert "Gan.more (RMSprop)" in caplog.text
        assert "Gan.last (Adagrad)" in caplog.text
        assert "tf_lso.wrap(optimizer, model)" in caplog.text

    @pytest.mark.parametrize("policy", ["mixed_float16", "float32", "no loss scale"])
    def test_no_warning_after_wrap(self, module, optimizers, policy, caplog):
        if policy == "no loss scale":
            policy = policy_without_loss_scale(module)
        model = gan(module, policy)
        model.compile(
            tf_lso.wrap(optimizers.SGD(), model), tf_lso.wrap(optimizers.SGD(), model)
        )
        model.fit(X, Y, verbose=0)
        assert "scales no loss" not in caplog.text

    def test_a_warning_names_an_optimizer_that_replaces_the_compiled_one(
        self, module, optimizers, caplog
    ):
        model = compiled_model(module, optimizers.SGD())
        model.optimizer = optimizers.SGD()
        model.fit(X, Y, verbose=0)
        assert "Sequential.optimizer (SGD)" in caplog.text

    def test_a_program_may_make_the_train_function_again(self, module, optimizers):
        model = compiled_model(module, optimizers.SGD())
        model.make_train_function()
        first = model.train_function
        model.make_train_function(force=True)
        assert model.train_function is not first

    @needs_keras3
    def test_no_warning_if_compile_is_told_not_to_scale(self, caplog):
        model = compiled_model(keras, keras.optimizers.SGD(), auto_scale_loss=False)
        model.fit(X, Y, verbose=0)
        assert "scales no loss" not in caplog.text

    @needs_keras3
    def test_no_warning_if_the_optimizer_has_a_loss_scale_factor(self, caplog):
        model = compiled_model(keras, "sgd")
        model.optimizer = keras.optimizers.SGD(loss_scale_factor=8.0)
        model.fit(X, Y, verbose=0)
        assert "scales no loss" not in caplog.text
