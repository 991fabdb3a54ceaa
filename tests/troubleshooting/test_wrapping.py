"""The entries of "Wrapping and arguments" and of "Commands and reports"."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras, keras2, needs_keras3, number
from tests.troubleshooting.models import legacy_step, one_layer, wrapped_sgd
from tests.troubleshooting.page import assert_explained, assert_not_explained, raises

tf_keras = keras2


@pytest.fixture
def sgd():
    return tf.keras.optimizers.SGD(0.5)


def test_dynamic_bool(sgd):
    with raises("dynamic-bool"):
        opt = tf_lso.LossScaleOptimizer(sgd, 128)

    opt = tf_lso.LossScaleOptimizer(sgd, dynamic=False, initial_scale=128)
    assert float(opt.loss_scale) == 128


def test_base_arguments(sgd, variables):
    with raises("argument"):
        tf_lso.LossScaleOptimizer(sgd, clipnorm=1.0)

    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1, clipnorm=1.0))
    legacy_step(opt, variables)
    assert float(variables[0]) == pytest.approx(2 - 0.1)


def test_loss_scale_identifier(sgd):
    from tf_lso.keras.mixed_precision import experimental

    with raises("argument"):
        experimental.LossScaleOptimizer(sgd, "auto")

    loss_scale = "dynamic"
    experimental.LossScaleOptimizer(sgd, loss_scale)


def test_wrapped_twice(sgd, variables):
    wrapped = tf.keras.mixed_precision.LossScaleOptimizer(sgd)
    with raises("wrapped-twice"):
        opt = tf_lso.LossScaleOptimizer(wrapped)

    inner = wrapped.inner_optimizer
    opt = tf_lso.LossScaleOptimizer(type(inner).from_config(inner.get_config()))
    legacy_step(opt, variables)
    assert float(variables[0]) == 0


def test_two_wrappers(sgd, variables):
    opt = tf_lso.LossScaleOptimizer(sgd)
    with raises("wrapped-twice"):
        tf_lso.LossScaleOptimizer(sgd)

    opt = tf_lso.LossScaleOptimizer(type(sgd).from_config(sgd.get_config()))
    legacy_step(opt, variables)
    assert float(variables[0]) == 0


def test_not_an_optimizer(variables):
    with raises("argument"):
        opt = tf_lso.LossScaleOptimizer("sgd")

    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.get("sgd"))
    legacy_step(opt, variables)
    assert float(variables[0]) == pytest.approx(2 - 0.01 * 4)


def test_never_called(variables, shown):
    def own(Base):
        class Own(Base):
            def _resource_apply_dense(self, grad, var, apply_state=None):
                return var.assign_sub(0.25 * grad)

        return tf_lso.LossScaleOptimizer(Own(0.1))

    own(tf_keras.optimizers.SGD)
    assert_explained("never-called", shown())

    Base = tf_keras.optimizers.legacy.SGD
    legacy_step(own(Base), variables)
    assert_not_explained("never-called", shown())
    assert float(variables[0]) == 1


@needs_keras3
def test_overrides_in_fit():
    class Clipping(tf_lso.LossScaleOptimizer):
        def get_unscaled_gradients(self, grads):
            grads = super().get_unscaled_gradients(grads)
            return [tf.clip_by_value(grad, -1.0, 1.0) for grad in grads]

    def minimized(model, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x, y, model(x, training=True))
        model.optimizer.minimize(loss, model.trainable_variables, tape=tape)
        return loss

    def trained(Model):
        inputs = keras.Input((1,))
        model = Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs))
        model.compile(Clipping(keras.optimizers.SGD(0.5)), "mse")
        model.fit(np.ones((1, 1)), np.full((1, 1), 8.0), verbose=0)
        return float(model.get_weights()[0][0, 0])

    with raises("overrides-in-fit"):
        trained(keras.Model)

    class Model(keras.Model):
        def train_step(self, data):
            return {"loss": minimized(self, data)}

    assert trained(Model) == 0.5


def test_decay(variables):
    opt = wrapped_sgd()
    with raises("decay-ignored"):
        opt.decay = 0.01

    rate = tf.keras.optimizers.schedules.InverseTimeDecay(0.5, 1, decay_rate=0.01)
    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(rate))
    legacy_step(opt, variables)
    legacy_step(opt, variables)
    assert float(variables[0]) == pytest.approx(0, abs=1e-6)


def test_stateless(variables):
    opt = wrapped_sgd()
    with raises("argument"):
        opt.stateless_apply([], [tf.constant(1.0)], variables)

    opt.apply([tf.constant(1.0)], variables)
    assert number(opt.iterations) == 1


x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")


def test_no_float16_layer():
    model = one_layer(wrapped_sgd())
    with raises("no-float16-layer"):
        tf_lso.debugging.explain(model, x, y)

    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    model = one_layer(wrapped_sgd())
    assert tf_lso.debugging.explain(model, x, y).first.kind is None


def test_explain_not_built():
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = one_layer(wrapped_sgd(), built=False)
    with raises("not-built"):
        tf_lso.debugging.explain(model, x, y)

    model(x)
    assert tf_lso.debugging.explain(model, x, y).first.kind is None


def test_callback_optimizer():
    monitor = tf_lso.callbacks.LossScaleMonitor()
    model = one_layer(
        tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD())
    )
    with raises("callback-optimizer"):
        model.fit(x, y, verbose=0, callbacks=[monitor])

    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
    history = one_layer(opt).fit(x, y, verbose=0, callbacks=[monitor]).history
    assert history["loss_scale"] == [2**15]


def test_callback_late():
    model = one_layer(wrapped_sgd())
    monitor = tf_lso.callbacks.LossScaleMonitor()
    with raises("callback-optimizer"):
        monitor.on_epoch_end(0, {})

    model.fit(x, y, verbose=0, callbacks=[monitor])
    assert model.history.history["loss_scale"] == [8]
