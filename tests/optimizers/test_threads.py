"""One optimizer in several threads."""

import concurrent.futures
import threading

import pytest
import tensorflow as tf

from tests.contract.setting import check_state
from tests.families import legacy_step, numpy, wrapped
from tests.processes import HANGS_AFTER

INF = float("inf")
THREADS, STEPS = 4, 50


def in_threads(function):
    """Call `function(number)` in several threads at the same time. Raise what one raises."""
    barrier = threading.Barrier(THREADS)

    def start(number):
        barrier.wait(HANGS_AFTER)
        return function(number)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        # `list` waits for the results, and raises the error of a thread.
        list(threads.map(start, range(THREADS), timeout=HANGS_AFTER))


def test_threads_may_call_one_traced_step(family):
    optimizer = wrapped(family, growth=10_000)
    x = tf.Variable(1.0, name="x")
    step = tf.function(lambda g: legacy_step(optimizer, lambda: x * g, [x]))

    def take_steps(_):
        for _ in range(STEPS):
            step(tf.constant(0.001))

    in_threads(take_steps)
    check_state(optimizer, scale=8.0, count=THREADS * STEPS, iterations=THREADS * STEPS)


def test_threads_may_take_the_first_eager_step_at_the_same_time(family):
    optimizer = wrapped(family, "Adam")
    x = tf.Variable(1.0, name="x")
    in_threads(lambda _: legacy_step(optimizer, lambda: x * 1.0, [x]))
    assert int(numpy(optimizer.iterations)) == THREADS


@pytest.mark.parametrize("traced", [False, True])
def test_first_steps_of_threads_with_variables_of_their_own(family, traced):
    for _ in range(5):
        optimizer = wrapped(family, "SGD", 0.5, scale=2.0**20)
        variables = [
            [tf.Variable(1.0, name=f"v{number}_{i}") for i in range(number + 1)]
            for number in range(THREADS)
        ]
        # A legacy optimizer is built for more variables in each thread.
        if family != "legacy":
            optimizer.build([v for own in variables for v in own])

        def step(number, value, optimizer=optimizer, variables=variables):
            own = variables[number]
            optimizer.apply_gradients([(value, variable) for variable in own])

        steps = [step] * THREADS
        if traced:
            steps = [tf.function(step) for _ in range(THREADS)]
        in_threads(lambda number, steps=steps: steps[number](number, tf.constant(1.0)))
        assert {float(v) for own in variables for v in own} == {0.5}
        in_threads(lambda number, steps=steps: steps[number](number, tf.constant(INF)))
        assert {float(v) for own in variables for v in own} == {0.5}
        assert int(optimizer.consecutive_skipped_steps) > 0
        # The record of the last skipped step is that of one of the threads.
        overflow = optimizer.last_overflow
        assert {kind for _, kind in overflow} == {"inf"}
        (owner,) = {name.partition("_")[0] for name, _ in overflow}
        assert len(overflow) == int(owner[1:]) + 1
