"""The entries of "Scaling, unscaling, applying"."""

import tensorflow as tf

from tests.troubleshooting.models import loss_of, wrapped_sgd
from tests.troubleshooting.page import assert_explained, raises


def test_two_protocols():
    opt = wrapped_sgd()
    loss = tf.constant(2.0)
    opt.scale_loss(loss)
    with raises("two-protocols"):
        opt.get_scaled_loss(loss)


def test_forgotten(variables, shown):
    opt = wrapped_sgd()
    with tf.GradientTape() as tape:
        loss = loss_of(variables)
    grads = opt.get_unscaled_gradients(tape.gradient(loss, variables))
    opt.apply_gradients(zip(grads, variables))
    assert_explained("forgotten", shown())


def test_waiting_gradients(variables):
    opt = wrapped_sgd()

    def gradients_of(scaled):
        with tf.GradientTape() as tape:
            loss = scaled(loss_of(variables))
        return tape.gradient(loss, variables)

    @tf.function
    def look():
        return opt.get_unscaled_gradients(gradients_of(opt.get_scaled_loss))

    look()
    grads = tf.function(lambda: gradients_of(opt.scale_loss))()
    with raises("waiting-gradients"):
        opt.apply_gradients(zip(grads, variables))


def test_traced_before(variables, shown):
    def scaled_step(opt):
        with tf.GradientTape() as tape:
            scaled_loss = opt.scale_loss(loss_of(variables))
        return tape.gradient(scaled_loss, variables)

    opt = wrapped_sgd()
    apply = tf.function(lambda grads: opt.apply_gradients(zip(grads, variables)))
    apply([tf.constant(0.0)])
    scaled_step(opt)
    assert_explained("waiting-gradients", shown())


def test_float16_loss(shown):
    opt = wrapped_sgd()
    loss = tf.constant(1e4, "float16")
    opt.get_scaled_loss(loss)
    assert_explained("float16-loss", shown())


def test_no_gradients(variables):
    opt = wrapped_sgd()
    with tf.GradientTape() as tape:
        loss = loss_of([v.numpy() for v in variables])
    grads = tape.gradient(tf.constant(loss), variables)
    with raises("no-gradients"):
        opt.apply_gradients(zip(grads, variables))
