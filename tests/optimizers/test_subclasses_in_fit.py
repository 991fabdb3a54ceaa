"""Subclasses that override methods of TensorFlow 2.0-2.15, in custom loops and in `fit`."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, STYLES, here, keras, needs_keras3
from tests.refused import refused

# The methods that a step of the legacy API calls.
LEGACY_METHODS = (
    "get_scaled_loss",
    "get_unscaled_gradients",
    "_compute_gradients",
    "minimize",
    "apply_gradients",
)


def recording(*names):
    """Return a subclass that overrides some methods, and the list of their calls.

    Each method adds its name to the list, and calls the method of the base class.
    """
    calls = []

    class Recording(tf_lso.LossScaleOptimizer):
        """A subclass that records calls."""

    def override(name):
        def method(self, *args, **kwargs):
            calls.append(name)
            return getattr(super(Recording, self), name)(*args, **kwargs)

        setattr(Recording, name, method)

    for name in names:
        override(name)
    return Recording, calls


def compiled_model(optimizer, family, eager=False):
    """Return a model with one weight, which is 1. The gradient of the weight is 4."""
    kit = KERASES[family]
    dense = kit.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = kit.Sequential([kit.layers.Input((1,)), dense])
    loss = lambda y, p: 4.0 * tf.reduce_mean(p)  # noqa: E731
    model.compile(optimizer, loss=loss, run_eagerly=eager)
    return model


def weight_after_fit(model):
    one = np.ones((1, 1), "float32")
    model.fit(one, one, verbose=0)
    return float(model.get_weights()[0][0, 0])


# --- `fit` of Keras 3 calls none of these methods.


@needs_keras3
@pytest.mark.parametrize("name", LEGACY_METHODS)
def test_fit_of_keras_3_refuses_an_override_of_each_legacy_method(name):
    cls, calls = recording(name)
    optimizer = cls(keras.optimizers.SGD(0.5, momentum=0.9), initial_scale=8.0)
    model = compiled_model(optimizer, "keras3")
    iterations, scale, count = optimizer.get_weights()
    expected = f"Recording ... {name} ... train_step() ... TF_USE_LEGACY_KERAS=1"
    with refused(f"RuntimeError: {expected}"):
        weight_after_fit(model)
    assert calls == []
    assert model.get_weights()[0] == 1.0
    optimizer.build(model.trainable_variables)
    momentum = np.zeros((1, 1))
    np.testing.assert_equal(
        optimizer.get_weights(), [iterations, momentum, scale, count]
    )


@needs_keras3
@pytest.mark.parametrize("name", ["get_unscaled_gradients", "apply_gradients"])
def test_fit_of_keras_3_refuses_a_legacy_method_that_is_set_on_the_object(name):
    optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.5), initial_scale=8.0)
    original, calls = getattr(optimizer, name), []

    @functools.wraps(original)  # looks like a method of tf_lso
    def recorded(*args, **kwargs):
        calls.append(name)
        return original(*args, **kwargs)

    setattr(optimizer, name, recorded)
    model = compiled_model(optimizer, "keras3")
    with refused(f"RuntimeError: overrides {name} ... train_step()"):
        weight_after_fit(model)
    assert calls == []
    assert model.get_weights()[0] == 1.0


@needs_keras3
@pytest.mark.parametrize("name", ["apply", "scale_loss"])
def test_a_subclass_that_overrides_no_legacy_method_trains(name):
    cls, calls = recording(name)
    optimizer = cls(keras.optimizers.SGD(0.5), initial_scale=8.0)
    assert weight_after_fit(compiled_model(optimizer, "keras3")) == -1.0
    assert calls == [name]


# --- `fit` of Keras 2 calls all of these methods.


@pytest.mark.parametrize("eager", [False, True], ids=["traced", "eager"])
@pytest.mark.parametrize("family", here("legacy", "new"))
def test_fit_of_keras_2_calls_all_legacy_methods(family, eager):
    cls, calls = recording(*LEGACY_METHODS)
    optimizer = cls(FAMILIES[family].SGD(0.5), initial_scale=8.0)
    assert weight_after_fit(compiled_model(optimizer, family, eager)) == -1.0
    assert calls[:5] == [
        "minimize",
        "_compute_gradients",
        "get_scaled_loss",
        "get_unscaled_gradients",
        "apply_gradients",
    ]
    # Keras may trace the first step twice.
    assert len(calls) == 5 or not eager


# --- In custom loops. These subclasses clip the gradients in different methods, as programs
# of 2020 did.


def clipped(pairs):
    return [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in pairs]


class ClipsInApply(tf_lso.LossScaleOptimizer):
    def apply_gradients(self, grads_and_vars, **kwargs):
        return super().apply_gradients(clipped(grads_and_vars), **kwargs)


class ClipsInUnscaling(tf_lso.LossScaleOptimizer):
    def get_unscaled_gradients(self, grads):
        unscaled = super().get_unscaled_gradients(grads)
        return [tf.clip_by_value(g, -1.0, 1.0) for g in unscaled]


class ClipsInComputing(tf_lso.LossScaleOptimizer):
    def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        return clipped(super()._compute_gradients(loss, var_list, grad_loss, tape=tape))


class ScalesItself(tf_lso.LossScaleOptimizer):
    """Scales the loss and unscales gradients without calling the base class."""

    def get_scaled_loss(self, loss):
        scale = self.loss_scale
        return (lambda: loss() * scale) if callable(loss) else loss * scale

    def get_unscaled_gradients(self, grads):
        return [tf.clip_by_value(g / self.loss_scale, -1.0, 1.0) for g in grads]


def minimize(optimizer, loss, variables):
    optimizer.minimize(loss, variables)


@pytest.mark.parametrize(
    "cls, take_step",
    [
        (ClipsInApply, STYLES["legacy"]),
        (ClipsInUnscaling, STYLES["legacy"]),
        (ScalesItself, STYLES["legacy"]),
        (ClipsInComputing, minimize),
    ],
)
def test_in_a_custom_loop_the_methods_get_unscaled_gradients(
    family, cls, take_step, caplog
):
    optimizer = cls(FAMILIES[family].SGD(1.0), initial_scale=1024.0)
    x = tf.Variable(3.0)
    optimizer.build([x])

    def step(factor):
        take_step(optimizer, lambda: 4.0 * x * factor, [x])

    step(tf.constant(1.0))
    tf.function(step)(tf.constant(1.0))
    assert float(x) == 1.0  # each step subtracts the clipped gradient, 1
    step(tf.constant(float("nan")))  # clipped NaN is NaN
    assert float(x) == 1.0 and float(optimizer.loss_scale) == 512.0
    # There is no warning that the program forgot to scale or to unscale.
    assert "before apply_gradients" not in caplog.text
