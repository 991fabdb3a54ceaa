"""Methods of TensorFlow 2.0-2.15 that a subclass overrides: in loops and in `fit`."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, STYLES, copies, here, keras, needs_keras3
from tests.refused import refused

LEGACY_METHODS = (
    "get_scaled_loss",
    "get_unscaled_gradients",
    "_compute_gradients",
    "minimize",
    "apply_gradients",
)


def counting(*names):
    """A class that notes the calls of these methods."""

    def noting(name):
        def method(self, *args, **kwargs):
            calls.append(name)
            return getattr(super(Counting, self), name)(*args, **kwargs)

        return method

    calls, members = [], {name: noting(name) for name in names}
    Counting = type("Counting", (tf_lso.LossScaleOptimizer,), members)
    return Counting, calls


def compiled(optimizer, family, eager=False, model_class=None):
    """A model with one weight, which is 1, and the gradient 4."""
    kit = KERASES[family]
    dense = kit.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = (model_class or kit.Sequential)([kit.layers.Input((1,)), dense])
    loss = lambda y, p: 4.0 * tf.reduce_mean(p)  # noqa: E731
    model.compile(optimizer, loss=loss, run_eagerly=eager)
    return model


def weight_after_fit(model):
    one = np.ones((1, 1), "float32")
    model.fit(one, one, verbose=0)
    return float(model.get_weights()[0][0, 0])


# --- In `fit` of Keras 3, which calls none of them as legacy did.


@needs_keras3
@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("name", LEGACY_METHODS)
def test_each_is_refused_in_fit_of_keras_3(name, eager):
    Counting, calls = counting(name)
    optimizer = Counting(keras.optimizers.SGD(0.5, momentum=0.9), initial_scale=8.0)
    model = compiled(optimizer, "keras3", eager)
    before = optimizer.get_weights()
    said = f"Counting ... {name} ... train_step() ... TF_USE_LEGACY_KERAS=1"
    with refused(f"RuntimeError: {said}"):
        weight_after_fit(model)
    assert calls == []
    assert model.get_weights()[0] == 1.0
    optimizer.build(model.trainable_variables)
    zeros = [np.zeros((1, 1))]  # the slots that were built
    np.testing.assert_equal(optimizer.get_weights(), [before[0], *zeros, *before[-2:]])


@needs_keras3
def test_all_that_are_overridden_are_named():
    class Further(counting("get_scaled_loss")[0]):
        def minimize(self, *args, **kwargs):
            return super().minimize(*args, **kwargs)

    model = compiled(Further(keras.optimizers.SGD(0.5)), "keras3")
    with pytest.raises(RuntimeError, match="Further overrides get_scaled_loss, minim"):
        weight_after_fit(model)


@needs_keras3
@pytest.mark.parametrize("names", [(), ("apply",), ("scale_loss",), ("clip",)])
def test_a_class_that_overrides_none_of_them_trains(names):
    Counting, calls = counting(*names)
    optimizer = Counting(keras.optimizers.SGD(0.5), initial_scale=8.0)
    assert weight_after_fit(compiled(optimizer, "keras3")) == -1.0
    assert calls == [name for name in names if name != "clip"]


def minimize_of_a_tape(optimizer, loss, variables):
    with tf.GradientTape() as tape:
        value = loss()
    optimizer.minimize(value, variables, tape=tape)


@needs_keras3
@pytest.mark.parametrize("step", [minimize_of_a_tape, STYLES["legacy"]])
@pytest.mark.parametrize("eager", [False, True])
def test_a_train_step_that_calls_them_trains(step, eager):
    class Own(keras.Sequential):
        def train_step(self, data):
            x, y = data
            loss = lambda: self.compute_loss(x, y, self(x, training=True))  # noqa: E731
            step(self.optimizer, loss, self.trainable_variables)
            return {"loss": tf.constant(0.0)}

    Counting, calls = counting(*LEGACY_METHODS)
    optimizer = Counting(keras.optimizers.SGD(0.5), initial_scale=8.0)
    assert weight_after_fit(compiled(optimizer, "keras3", eager, Own)) == -1.0
    by_minimize = {"minimize", "_compute_gradients"}
    called = set(LEGACY_METHODS) - (
        set() if step is minimize_of_a_tape else by_minimize
    )
    assert set(calls) == called


# --- In `fit` of Keras 2, which calls them as ever.


@pytest.mark.parametrize("eager", [False, True], ids=["traced", "eager"])
@pytest.mark.parametrize("family", here("legacy", "new"))
def test_all_are_called_in_fit_of_keras_2(family, eager):
    Counting, calls = counting(*LEGACY_METHODS)
    optimizer = Counting(FAMILIES[family].SGD(0.5), initial_scale=8.0)
    assert weight_after_fit(compiled(optimizer, family, eager)) == -1.0
    # The first step that is traced may be traced twice.
    scaled, unscaled, computed, minimized, applied = LEGACY_METHODS
    assert calls[:5] == [minimized, computed, scaled, unscaled, applied]
    assert len(calls) == 5 or not eager


# --- In loops, where the program calls them.


def clipped(pairs):
    """What programs of 2020 did with gradients before they were applied."""
    return [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in pairs]


class InApply(tf_lso.LossScaleOptimizer):
    def apply_gradients(self, grads_and_vars, **kwargs):
        return super().apply_gradients(clipped(grads_and_vars), **kwargs)


class InUnscaling(tf_lso.LossScaleOptimizer):
    def get_unscaled_gradients(self, grads):
        unscaled = super().get_unscaled_gradients(grads)
        return [gradient for gradient, _ in clipped(zip(unscaled, grads))]


class InComputing(tf_lso.LossScaleOptimizer):
    def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        return clipped(super()._compute_gradients(loss, var_list, grad_loss, tape=tape))


class InMinimize(tf_lso.LossScaleOptimizer):
    def minimize(self, loss, var_list, grad_loss=None, name=None, tape=None):
        pairs = self._compute_gradients(loss, var_list, grad_loss, tape=tape)
        return self.apply_gradients(clipped(pairs), name=name)


class Mixin:
    def apply_gradients(self, grads_and_vars, **kwargs):
        return super().apply_gradients(clipped(grads_and_vars), **kwargs)


class WithAMixin(Mixin, tf_lso.LossScaleOptimizer):
    pass


class OfASubclass(InApply):
    pass


class WithoutTheBase(tf_lso.LossScaleOptimizer):
    """Scales and unscales by itself."""

    def get_scaled_loss(self, loss):
        scale = self.loss_scale
        return (lambda: loss() * scale) if callable(loss) else loss * scale

    def get_unscaled_gradients(self, grads):
        return [tf.clip_by_value(g / self.loss_scale, -1.0, 1.0) for g in grads]


def minimize(optimizer, loss, variables):
    optimizer.minimize(loss, variables)


IN_BOTH_STYLES = [InApply, InUnscaling, WithAMixin, OfASubclass, WithoutTheBase]
BY_MINIMIZE = [InComputing, InMinimize]  # which alone calls what they override


@pytest.mark.parametrize(
    "cls, style",
    [
        *((cls, STYLES["legacy"]) for cls in IN_BOTH_STYLES),
        *(
            pytest.param(cls, minimize, marks=pytest.mark.slow)
            for cls in IN_BOTH_STYLES
        ),
        *((cls, minimize) for cls in BY_MINIMIZE),
    ],
)
def test_in_loops_they_get_unscaled_gradients(family, cls, style, caplog):
    optimizer = cls(FAMILIES[family].SGD(1.0), initial_scale=1024.0)
    x = tf.Variable(3.0)
    optimizer.build([x])

    def step(factor):
        style(optimizer, lambda: 4.0 * x * factor, [x])

    step(tf.constant(1.0))
    tf.function(step)(tf.constant(1.0))
    assert float(x) == 1.0
    step(tf.constant(float("nan")))  # clipped NaN is NaN
    assert float(x) == 1.0 and float(optimizer.loss_scale) == 512.0
    assert "before apply_gradients" not in caplog.text  # nothing was forgotten


def test_on_replicas(family, mirrored2):
    with mirrored2.scope():
        optimizer = InApply(FAMILIES[family].SGD(1.0), initial_scale=1024.0)
        x = tf.Variable(3.0)
        optimizer.build([x])

    @tf.function
    def step():
        STYLES["legacy"](optimizer, lambda: 4.0 * x, [x])

    mirrored2.run(step)
    assert copies(x) == [1.0, 1.0]  # each replica clips to 1, then they are summed
