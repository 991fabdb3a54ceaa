"""The methods that a subclass overrides are called in `fit`, as legacy called them."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, STYLES, copies, keras, needs_keras3
from tf_lso.optimizers.loss_scale_optimizer import LossScaleOptimizer

LEGACY_METHODS = (
    "get_scaled_loss",
    "get_unscaled_gradients",
    "_compute_gradients",
    "minimize",
    "apply_gradients",
)


def fit(optimizer, family, eager=False, xs=(1.0,)):
    """The weight, 1 at first, after steps with the gradient 4."""
    dense = KERASES[family].layers.Dense(1, use_bias=False)
    model = KERASES[family].Sequential([dense])
    model.build((None, 1))
    model.set_weights([np.ones((1, 1))])
    model.compile(
        optimizer, loss=lambda y, p: 4.0 * tf.reduce_mean(p), run_eagerly=eager
    )
    for x in xs:
        batch = np.full((1, 1), x, "float32")
        model.fit(batch, batch, verbose=0)
    return float(model.get_weights()[0][0, 0])


def counting(*names):
    """A class that notes the calls of these methods."""

    def noting(name):
        def method(self, *args, **kwargs):
            calls.append(name)
            return getattr(super(Counting, self), name)(*args, **kwargs)

        return method

    calls = []
    Counting = type(
        "Counting", (tf_lso.LossScaleOptimizer,), {n: noting(n) for n in names}
    )
    return Counting, calls


def test_none_are_overridden_in_tf_lso():
    assert LossScaleOptimizer._overridden == frozenset()
    for optimizers in FAMILIES.values():
        assert type(tf_lso.LossScaleOptimizer(optimizers.SGD()))._overridden == set()


@pytest.mark.parametrize(
    "family, name, eager", itertools.product(FAMILIES, LEGACY_METHODS, (False, True))
)
def test_each_is_called_in_fit(family, name, eager):
    Counting, calls = counting(name)
    optimizer = Counting(FAMILIES[family].SGD(0.5), initial_scale=8.0)
    assert fit(optimizer, family, eager) == -1.0
    # tf_keras traces the first step of fit twice.
    assert calls == [name] or (calls == [name] * 2 and not eager)


@pytest.mark.parametrize("eager", [False, True], ids=["traced", "eager"])
def test_all_are_called_in_the_order_of_legacy(family, eager):
    Counting, calls = counting(*LEGACY_METHODS)
    optimizer = Counting(FAMILIES[family].SGD(0.5), initial_scale=8.0)
    assert fit(optimizer, family, eager) == -1.0
    inner = ["get_scaled_loss", "get_unscaled_gradients", "apply_gradients"]
    assert [call for call in calls if call in inner][:3] == inner
    assert set(calls) == set(LEGACY_METHODS)


class Clipping:
    """What programs of 2020 did with gradients before they were applied."""

    def clip(self, gradients):
        return [tf.clip_by_value(g, -1.0, 1.0) for g in gradients]


class InApply(Clipping, tf_lso.LossScaleOptimizer):
    def apply_gradients(self, grads_and_vars, **kwargs):
        gradients, variables = zip(*grads_and_vars)
        return super().apply_gradients(zip(self.clip(gradients), variables), **kwargs)


class InUnscaling(Clipping, tf_lso.LossScaleOptimizer):
    def get_unscaled_gradients(self, grads):
        return self.clip(super().get_unscaled_gradients(grads))


class InComputing(Clipping, tf_lso.LossScaleOptimizer):
    def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        pairs = super()._compute_gradients(loss, var_list, grad_loss, tape=tape)
        gradients, variables = zip(*pairs)
        return list(zip(self.clip(gradients), variables))


class InMinimize(Clipping, tf_lso.LossScaleOptimizer):
    def minimize(self, loss, var_list, grad_loss=None, name=None, tape=None):
        pairs = self._compute_gradients(loss, var_list, grad_loss, tape=tape)
        gradients, variables = zip(*pairs)
        return self.apply_gradients(zip(self.clip(gradients), variables), name=name)


class ByAMixin:
    def apply_gradients(self, grads_and_vars, **kwargs):
        pairs = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in grads_and_vars]
        return super().apply_gradients(pairs, **kwargs)


class WithAMixin(ByAMixin, tf_lso.LossScaleOptimizer):
    pass


class OfASubclass(InApply):
    pass


class WithoutTheBase(Clipping, tf_lso.LossScaleOptimizer):
    """Scales and unscales by itself."""

    def get_scaled_loss(self, loss):
        scale = self.loss_scale
        return (lambda: loss() * scale) if callable(loss) else loss * scale

    def get_unscaled_gradients(self, grads):
        return self.clip([g / self.loss_scale for g in grads])


CLIPPING = (
    InApply,
    InUnscaling,
    InComputing,
    InMinimize,
    WithAMixin,
    OfASubclass,
    WithoutTheBase,
)


@pytest.mark.parametrize("family, cls", itertools.product(FAMILIES, CLIPPING))
def test_they_get_unscaled_gradients(family, cls):
    for eager in (False, True):
        optimizer = cls(FAMILIES[family].SGD(1.0), initial_scale=1024.0)
        # Of a step that is skipped too.
        assert fit(optimizer, family, eager, (1.0, float("nan"))) == 0.0
        assert float(optimizer.loss_scale) == 512.0


@pytest.mark.parametrize(
    "family, cls, style", itertools.product(FAMILIES, CLIPPING, STYLES)
)
def test_they_get_them_in_loops_too(family, cls, style):
    if style == "legacy" and cls in (InComputing, InMinimize):
        style = "minimize"  # only it calls these
    optimizer = cls(FAMILIES[family].SGD(1.0), initial_scale=1024.0)
    x = tf.Variable(3.0)
    for compiled in (lambda f: f, tf.function):

        def step():
            if style == "minimize":
                optimizer.minimize(lambda: 4.0 * x, [x])
            else:
                STYLES[style](optimizer, lambda: 4.0 * x, [x])

        compiled(step)()
    assert float(x) == 1.0


def test_on_replicas(family, mirrored2):
    with mirrored2.scope():
        optimizer = InApply(FAMILIES[family].SGD(1.0), initial_scale=1024.0)
        x = tf.Variable(3.0)
        optimizer.build([x])

    @tf.function
    def step():
        STYLES["keras3"](optimizer, lambda: 4.0 * x, [x])

    mirrored2.run(step)
    assert copies(x) == [1.0, 1.0]  # each replica clips to 1, then they are summed


@needs_keras3
def test_an_overridden_apply_is_called_by_keras_3s_fit():
    Counting, calls = counting("apply")
    optimizer = Counting(keras.optimizers.SGD(0.5), initial_scale=8.0)
    assert fit(optimizer, "keras3") == -1.0
    assert calls == ["apply"]


def test_a_method_that_does_not_call_the_base_is_not_told_it_was_forgotten(
    family, caplog
):
    optimizer = WithoutTheBase(FAMILIES[family].SGD(1.0), initial_scale=8.0)
    x = tf.Variable(3.0)
    STYLES["legacy"](optimizer, lambda: x, [x])
    assert "before apply_gradients" not in caplog.text
