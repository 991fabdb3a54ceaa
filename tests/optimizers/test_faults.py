"""Steps in several threads, and two optimizers in one step."""

import concurrent.futures
import threading

import pytest
import tensorflow as tf

from tests.contract.setting import check_state
from tests.families import STYLES, numpy, wrapped
from tests.processes import HANGS_AFTER

THREADS, STEPS = 4, 50


def _run_in_threads(work):
    """Call `work` in several threads at the same time. Raise what a thread raises."""
    start = threading.Barrier(THREADS)

    def wait_and_work(_):
        start.wait(HANGS_AFTER)
        work()

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        # `list` waits for the results, and raises the error of a thread.
        list(pool.map(wait_and_work, range(THREADS), timeout=HANGS_AFTER))


@pytest.mark.parametrize("style", STYLES)
def test_threads_may_call_one_traced_step(family, style):
    optimizer = wrapped(family, growth=10_000)
    x = tf.Variable(1.0, name="x")
    step = tf.function(lambda g: STYLES[style](optimizer, lambda: x * g, [x]))

    def work():
        for _ in range(STEPS):
            step(tf.constant(0.001))

    _run_in_threads(work)
    check_state(optimizer, scale=8.0, count=THREADS * STEPS, iterations=THREADS * STEPS)


def test_threads_may_take_the_first_eager_step_at_the_same_time(family):
    optimizer = wrapped(family, "Adam")
    x = tf.Variable(1.0, name="x")
    _run_in_threads(lambda: STYLES["legacy"](optimizer, lambda: x * 1.0, [x]))
    assert int(numpy(optimizer.iterations)) == THREADS


def test_one_step_may_use_two_optimizers(family):
    """The training step of a GAN does so."""
    first, second = wrapped(family, scale=4.0), wrapped(family, scale=16.0)
    x, y = tf.Variable(1.0, name="x"), tf.Variable(1.0, name="y")

    @tf.function
    def step(x_gradient, y_gradient):
        with tf.GradientTape(persistent=True) as tape:
            x_loss = first.get_scaled_loss(x * x_gradient)
            y_loss = second.get_scaled_loss(y * y_gradient)
        x_grads = first.get_unscaled_gradients([tape.gradient(x_loss, x)])
        y_grads = second.get_unscaled_gradients([tape.gradient(y_loss, y)])
        first.apply_gradients(zip(x_grads, [x]))
        second.apply_gradients(zip(y_grads, [y]))

    step(tf.constant(1.0), tf.constant(float("inf")))
    check_state(first, scale=4.0, count=1, iterations=1)
    check_state(second, scale=8.0, count=0, iterations=1)
    assert (float(x), float(y)) == (pytest.approx(0.9), 1.0)
