"""Faults beyond the contract: threads, two optimizers in one step, memory."""

import concurrent.futures
import threading

import pytest
import tensorflow as tf

from tests.contract.setting import check_state
from tests.families import STYLES, numpy, wrapped
from tests.processes import HANGS_AFTER

THREADS, STEPS = 4, 50


def _run_in_threads(work):
    """Run `work` in several threads at once, of which none may raise."""
    start = threading.Barrier(THREADS)

    def together(_):
        start.wait(HANGS_AFTER)
        work()

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(together, range(THREADS), timeout=HANGS_AFTER))


@pytest.mark.parametrize("style", STYLES)
def test_threads_share_one_compiled_step(family, style):
    optimizer = wrapped(family, growth=10_000)
    x = tf.Variable(1.0, name="x")
    step = tf.function(lambda g: STYLES[style](optimizer, lambda: x * g, [x]))

    def work():
        for _ in range(STEPS):
            step(tf.constant(0.001))

    _run_in_threads(work)
    check_state(optimizer, scale=8.0, count=THREADS * STEPS, iterations=THREADS * STEPS)


def test_threads_take_the_first_eager_step_together(family):
    optimizer = wrapped(family, "Adam")
    x = tf.Variable(1.0, name="x")
    _run_in_threads(lambda: STYLES["legacy"](optimizer, lambda: x * 1.0, [x]))
    assert int(numpy(optimizer.iterations)) == THREADS


def test_two_optimizers_of_a_gan_in_one_step(family):
    one, other = wrapped(family, scale=4.0), wrapped(family, scale=16.0)
    x, y = tf.Variable(1.0, name="x"), tf.Variable(1.0, name="y")

    @tf.function
    def step(g, h):
        with tf.GradientTape(persistent=True) as tape:
            scaled_one = one.get_scaled_loss(x * g)
            scaled_other = other.get_scaled_loss(y * h)
        (grad_one,) = one.get_unscaled_gradients([tape.gradient(scaled_one, x)])
        (grad_other,) = other.get_unscaled_gradients([tape.gradient(scaled_other, y)])
        one.apply_gradients([(grad_one, x)])
        other.apply_gradients([(grad_other, y)])

    step(tf.constant(1.0), tf.constant(float("inf")))
    check_state(one, scale=4.0, count=1, iterations=1)
    check_state(other, scale=8.0, count=0, iterations=1)
    assert (float(x), float(y)) == (pytest.approx(0.9), 1.0)
