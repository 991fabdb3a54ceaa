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


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.setattr(wrapping, "_once", log.Once())
    with tf_lso.install():
        yield


@pytest.fixture
def module(family):
    """The module of the Keras to which the family belongs."""
    return families.KERASES[family]


@pytest.fixture
def optimizers(family):
    return families.FAMILIES[family]


def model(module, dtype="mixed_float16"):
    """Return a model with the policy float32. Its last layer has the policy `dtype`."""
    body, head = module.layers.Dense(3), module.layers.Dense(1, dtype=dtype)
    return module.Sequential([module.layers.InputLayer((2,)), body, head])


def compiled(module, optimizer, dtype="mixed_float16", **kwargs):
    made = model(module, dtype)
    made.compile(optimizer, "mse", **kwargs)
    return made


def is_wrapped(optimizer):
    return isinstance(optimizer, tf_lso.LossScaleOptimizer)


def api_of(module):
    return policies.for_package(keras_versions.package_of(module))


def without_scale(module):
    return api_of(module).ExperimentalPolicy("mixed_float16", None)


class TestWrap:
    def test_wraps_where_any_layer_computes_in_float16(self, module, optimizers):
        for dtype in ("mixed_float16", "float16"):
            inner = optimizers.SGD(0.1)
            optimizer = tf_lso.wrap(inner, model(module, dtype))
            assert is_wrapped(optimizer)
            assert optimizer.inner_optimizer is inner
            assert optimizer.dynamic and float(optimizer.loss_scale) == 2.0**15

    def test_leaves_it_where_the_model_needs_no_scale(self, module, optimizers):
        inner = optimizers.SGD(0.1)
        for dtype in ("float32", "mixed_bfloat16", "float64", without_scale(module)):
            assert tf_lso.wrap(inner, model(module, dtype)) is inner

    def test_finds_layers_within_layers(self, module, optimizers):
        class Outer(module.Model):
            def __init__(self):
                super().__init__()
                self.blocks = [model(module)]

        assert is_wrapped(tf_lso.wrap(optimizers.SGD(), Outer()))

    def test_leaves_what_is_wrapped_by_either(self, module, optimizers):
        for wrapper in (tf_lso.LossScaleOptimizer, wrapper_of(module)):
            wrapped = wrapper(optimizers.SGD())
            assert tf_lso.wrap(wrapped, model(module)) is wrapped

    def test_takes_the_loss_scale_of_a_policy(self, module, optimizers):
        policy = api_of(module).ExperimentalPolicy("mixed_float16", 128)
        optimizer = tf_lso.wrap(optimizers.SGD(), model(module, policy))
        assert isinstance(optimizer, experimental.LossScaleOptimizer)
        assert optimizer.loss_scale is policy.loss_scale

    def test_a_float32_policy_of_the_model_decides_nothing(self, module, optimizers):
        """The policy of the model has no loss scale, but the policy of a layer needs one."""
        api_of(module).set_policy("float32")
        try:
            made = model(module)
        finally:
            api_of(module).set_global_policy(None)
        assert is_wrapped(tf_lso.wrap(optimizers.SGD(), made))

    def test_refuses_what_is_neither(self, module, optimizers):
        with pytest.raises(TypeError, match="'optimizer' must be an instance"):
            tf_lso.wrap("sgd", model(module))
        with pytest.raises(TypeError, match="'model' must be a model or layer"):
            tf_lso.wrap(optimizers.SGD(), "model")


def wrapper_of(module):
    """Return Keras's own LossScaleOptimizer. Its public name leads to tf_lso at the moment."""
    if module is keras2:
        path = families.KERAS2_PACKAGE, "mixed_precision.loss_scale_optimizer"
        return keras_versions.private(*path).BaseLossScaleOptimizer
    from tf_lso.optimizers.families import keras3

    return keras3.Keras3.bases[0]


class TestCompile:
    def test_leaves_plain_float16_as_in_legacy(self, module, optimizers, caplog):
        made = compiled(module, optimizers.SGD(0.1), "float16")
        assert not is_wrapped(made.optimizer)
        made.fit(X, Y, verbose=0)
        assert "scales no loss" in caplog.text

    @needs_keras3
    def test_keras_wraps_none_that_is_left_bare(self):
        # The policy has the loss scale None. Keras 3 itself does not know such policies, and
        # would wrap the optimizer.
        made, optimizer = (
            keras.Model(dtype=without_scale(keras)),
            keras.optimizers.SGD(),
        )
        made.compile(optimizer, "mse")
        assert made.optimizer is optimizer

    def test_a_second_time_with_the_same_optimizer(self, module, optimizers):
        made, inner = model(module), optimizers.Adam(0.1)
        compiled(module, inner)
        for steps in (1, 2):
            made.compile(inner, "mse")
            assert made.optimizer.inner_optimizer is inner
            made.fit(X, Y, verbose=0)
            assert number(made.optimizer.iterations) == steps
            assert np.isfinite(made.get_weights()[0]).all()

    @needs_keras3
    @pytest.mark.parametrize("scale", [True, False])
    def test_takes_all_arguments_by_position(self, scale):
        made = model(keras)
        made.compile("sgd", "mse", None, None, None, True, 1, False, scale)
        assert made.run_eagerly
        assert is_wrapped(made.optimizer) is scale

    def test_optimizers_of_tensorflow_1_are_left_to_tf_keras(self):
        given = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        assert compiled(keras2, given, "float32").optimizer.optimizer is given

    def test_other_arguments_are_refused_as_before(self):
        with pytest.raises(TypeError, match="bogus"):
            compiled(keras, "sgd", bogus=3)


def gan(module, submodel):
    class Gan(module.Model):
        def __init__(self):
            super().__init__()
            self.generator = submodel

        def compile(self, one, other, **kwargs):
            super().compile(**kwargs)
            self.one, self.others = one, {"other": other}

        def train_step(self, data):
            return {"loss": 0.0}

    return Gan()


class TestGetOptimizer:
    """`compile` of TensorFlow 2.4-2.15 called the method `_get_optimizer`, and programs did."""

    def test_a_model_wraps_its_own_optimizers(self, module, optimizers, caplog):
        class Gan(module.Model):
            def __init__(self, dtype):
                super().__init__()
                self.generator = model(module, dtype)

            def compile(self, one, others):
                super().compile()
                self.one = self._get_optimizer(one)
                self.others = self._get_optimizer(others)

        given = optimizers.Adam(0.1)
        made = Gan("mixed_float16")
        made.compile(given, {"a": optimizers.SGD(0.1), "b": "sgd"})
        assert made.one.inner_optimizer is given
        assert all(map(is_wrapped, [made.one, *made.others.values()]))
        made = Gan("float32")
        made.compile(given, ["sgd"])
        assert made.one is given
        assert not is_wrapped(made.others[0])

    @needs_keras3
    def test_is_not_there_without_install(self):
        tf_lso.uninstall()
        assert not hasattr(keras.Model, "_get_optimizer")


class TestOptimizersThatCompileDoesNotSee:
    def test_are_named(self, module, optimizers, caplog):
        made = gan(module, model(module))
        made.compile(optimizers.SGD(), optimizers.Adam())
        made.fit(X, Y, verbose=0)
        made.fit(X, Y, verbose=0)
        assert caplog.text.count("scales no loss") == 2
        assert "Gan.one (SGD)" in caplog.text
        assert "Gan.others (Adam)" in caplog.text
        assert "tf_lso.wrap(optimizer, model)" in caplog.text

    @pytest.mark.parametrize("dtype", ["mixed_float16", "float32", None])
    def test_are_not_if_wrapped_or_unscaled(self, module, optimizers, dtype, caplog):
        made = gan(module, model(module, dtype or without_scale(module)))
        made.compile(*(tf_lso.wrap(optimizers.SGD(), made) for _ in range(2)))
        made.fit(X, Y, verbose=0)
        assert "scales no loss" not in caplog.text

    def test_are_told_of_where_they_are_assigned(self, module, optimizers, caplog):
        made = compiled(module, optimizers.SGD())
        made.optimizer = optimizers.SGD()
        made.fit(X, Y, verbose=0)
        assert "Sequential.optimizer (SGD)" in caplog.text

    @needs_keras3
    def test_are_left_where_keras_was_told_not_to_scale(self, caplog):
        made = compiled(keras, keras.optimizers.SGD(), auto_scale_loss=False)
        made.fit(X, Y, verbose=0)
        made = compiled(keras, "sgd")
        made.optimizer = keras.optimizers.SGD(loss_scale_factor=8.0)
        made.fit(X, Y, verbose=0)
        assert "scales no loss" not in caplog.text
