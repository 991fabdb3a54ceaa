"""One optimizer, several threads, each with variables of its own."""

import concurrent.futures
import threading

import pytest
import tensorflow as tf

from tests.families import wrapped

INF = float("inf")
THREADS = 4


def in_threads(function):
    """Call `function(number)` in several threads at the same time. Return the results."""
    barrier = threading.Barrier(THREADS)

    def start(number):
        barrier.wait()
        return function(number)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(start, range(THREADS)))


@pytest.mark.parametrize("traced", [False, True])
def test_first_steps_at_the_same_time(family, traced):
    for _ in range(5):
        optimizer = wrapped(family, "SGD", 0.5, scale=2.0**20)
        variables = [
            [tf.Variable(1.0, name=f"v{number}_{i}") for i in range(number + 1)]
            for number in range(THREADS)
        ]
        if (
            family != "legacy"
        ):  # legacy optimizers are built for more and more variables
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
