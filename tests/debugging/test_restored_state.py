"""`debugging.explain` leaves all variables and all random state as they were."""

import contextlib
import functools
import random

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.debugging import planted
from tests.families import (
    FAMILIES,
    GENERATIONS,
    KERASES,
    keras,
    legacy_step,
    needs_keras3,
    number,
    numpy,
    raw,
)
from tests.generation import HAS_KERAS3
from tf_lso import debugging
from tf_lso.frameworks import keras_versions, tf_private

X, Y = planted.batch(8, 3), planted.batch(8, 1)


def model_of(family, seed=None, last=(), **compiled):
    module = KERASES[family]
    layers, metrics = module.layers, [module.metrics.MeanAbsoluteError()]
    model = planted.sequential(
        module,
        planted.dense(module, 4, "a"),
        layers.BatchNormalization(name="normalization", **planted.HALF),
        layers.Dropout(0.4, seed=seed, name="dropout", **planted.HALF),
        # The GaussianNoise of Keras 3.0 always draws float32, and cannot add it to float16.
        layers.GaussianNoise(0.1, seed=seed, name="noise", dtype="float32"),
        layers.ActivityRegularization(0.1, name="regularization", dtype="float32"),
        *(planted.dense(module, 1, "b"), *last),
    )
    inner = FAMILIES[family].Adam(0.05)
    # With this scale no gradient overflows, whatever numbers the layers draw.
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=1024)
    model.compile(optimizer, loss="mse", metrics=metrics, **compiled)
    return model


def values(model):
    """Return the values of all variables of a model and its optimizer, and of the scale."""
    optimizer = model.optimizer
    variables = [*model.variables, *optimizer.variables]
    # Keras 2 creates the metric of the loss in the first `fit`.
    if getattr(model, "history", None):
        for metric in model.metrics:
            variables += metric.variables
    numbers = [number(optimizer.loss_scale), number(optimizer.iterations)]
    return [numpy(raw(one)).copy() for one in variables] + [np.array(numbers)]


def set_all_seeds(seed):
    """Reset all random state. `set_random_seed` of Keras 3.0 does not reset Keras's own."""
    keras.utils.set_random_seed(seed)
    if HAS_KERAS3:
        state = keras_versions.state_of_keras3()
        state.set_global_attribute("global_seed_generator", None)
    number_of_keras3()


def number_of_keras3():
    """Draw a number with the global generator of Keras 3. Return 0 if Keras 3 is absent.

    The first call creates the generator.
    """
    return keras.random.normal(()) if HAS_KERAS3 else 0.0


def keras_generator():
    state = keras_versions.state_of_keras3()
    return state.get_global_attribute("global_seed_generator")


def random_state():
    """Return the state of all random generators, without changing the state."""
    context = tf_private.eager_context()
    return (
        random.getstate(),
        [np.array(part).tolist() for part in np.random.get_state()],
        context._rng.getstate(),
        context._seed,
        tf.random.get_global_generator().state.numpy().tolist(),
        numpy(raw(keras_generator().state)).tolist() if HAS_KERAS3 else None,
    )


def assert_same(before, after):
    assert len(before) == len(after)
    for one, other in zip(before, after):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@contextlib.contextmanager
def nothing_changes(model):
    values_before, random_state_before = values(model), random_state()
    yield
    assert_same(values_before, values(model))
    assert random_state() == random_state_before
    assert not tf.config.functions_run_eagerly()


@pytest.fixture(autouse=True)
def seeds():
    set_all_seeds(1)


class TestWhatIsRestored:
    @pytest.mark.parametrize("fails_in", [None, "layer", "loss"])
    def test_all_variables_even_after_an_exception(self, family, fails_in):
        fails, module = [], KERASES[family]

        def fail(*args):
            if fails:
                raise RuntimeError("on purpose")
            return args[-1]

        last = planted.owned(module, "fails", lambda x: fail(x))
        last = [last] if fails_in == "layer" else []
        model = model_of(family, last=last, run_eagerly=True)
        model.fit(X, Y, verbose=0)
        raised = pytest.raises(RuntimeError, match="on purpose")
        with nothing_changes(model), raised if fails_in else contextlib.nullcontext():
            fails.append(fails_in)
            loss = fail if fails_in == "loss" else None
            assert debugging.explain(model, X, Y, loss=loss).first.kind is None
        assert not any("call" in vars(layer) for layer in model.layers)

    def test_state_that_a_layer_of_the_user_changes(self, family):
        module = KERASES[family]

        class Own(module.layers.Layer):
            def build(self, shape):
                shape = (3, 1)
                self.kernel = self.add_weight(name="kernel", shape=shape)
                self.part = tf.Module()
                self.part.count = tf.Variable(0)
                self.generator = tf.random.Generator.from_seed(1)
                # TensorFlow cannot track a list after one of its elements was replaced.
                self.settings = [tf.Module(), 2]
                self.settings[0] = 1

            def call(self, x):
                self.kernel.assign(tf.fill((3, 1), 0.5))
                self.part.count.assign_add(1)
                self.generator.normal(())
                random.random(), np.random.rand(), tf.random.normal(())
                tf.random.get_global_generator().normal(())
                number_of_keras3()
                return x @ tf.cast(self.kernel, x.dtype)

        layer = Own(**planted.HALF)
        model = module.Sequential([layer])
        model(X)

        def state():
            variables = [raw(layer.kernel), layer.part.count, layer.generator.state]
            return [numpy(one).tolist() for one in variables], random_state()

        before = state()
        debugging.explain(model, X, Y, loss=planted.error, loss_scale=8)
        assert state() == before

    def test_the_setting_that_functions_run_eagerly(self):
        tf.config.run_functions_eagerly(True)
        try:
            planted.explained(planted.healthy(keras))
            assert tf.config.functions_run_eagerly()
        finally:
            tf.config.run_functions_eagerly(False)

    @pytest.mark.parametrize("generation", GENERATIONS)
    def test_a_layer_that_has_a_call_of_its_own(self, generation):
        """Keras 2 stores the function of an operation such as `tf.sin` in the layer object."""
        module = KERASES[generation]
        sin = module.ops.sin if hasattr(module, "ops") else tf.sin
        model = planted.functional(
            module, lambda x: sin(planted.dense(module, 4, "a")(x))
        )
        before = np.asarray(model(X))
        debugging.explain(model, X, Y, loss=planted.error)
        np.testing.assert_array_equal(model(X), before)

    @needs_keras3
    def test_global_generators_that_explain_creates_are_removed(self, monkeypatch):
        def draw(x):
            drawn = tf.random.get_global_generator().normal(()) + number_of_keras3()
            return x * tf.cast(drawn, x.dtype)

        layer = planted.owned(keras, "draws", draw)
        model = planted.sequential(keras, planted.dense(keras, 1, "a"), layer)
        generators_of_tensorflow = tf_private.generators()
        state_of_keras = keras_versions.state_of_keras3()
        monkeypatch.setattr(generators_of_tensorflow, "global_generator", None)
        name, before = "global_seed_generator", keras_generator()
        state_of_keras.set_global_attribute(name, None)
        try:
            debugging.explain(model, X, Y, loss=planted.error, loss_scale=8)
            assert generators_of_tensorflow.global_generator is None
            assert keras_generator() is None
        finally:
            state_of_keras.set_global_attribute(name, before)


@functools.cache
def trained(family, explained, seed, mode):
    set_all_seeds(3)
    model = model_of(family, seed, run_eagerly=mode == "eager fit")
    random_values = []

    def loss():
        return tf.reduce_mean((tf.cast(model(X, training=True), tf.float32) - Y) ** 2)

    for epoch in range(3):
        if mode == "loop":
            for _ in range(2):
                legacy_step(model.optimizer, loss, model.trainable_variables)
        else:
            model.fit(X, Y, batch_size=4, shuffle=True, verbose=0)
        if explained and epoch < 2:
            debugging.explain(model, X, Y)
        drawn = random.random(), np.random.rand(), tf.random.normal(())
        random_values += [*map(float, drawn), float(number_of_keras3())]
    return [*values(model), np.array(random_values)]


@pytest.mark.parametrize(
    "mode, seed",
    [
        pytest.param("fit", None, marks=pytest.mark.slow),
        ("eager fit", 5),
        ("loop", None),
    ],
)
def test_training_with_explanations_is_bit_for_bit_the_same(family, mode, seed):
    assert_same(trained(family, False, seed, mode), trained(family, True, seed, mode))
