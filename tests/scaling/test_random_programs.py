"""Random programs of scaling calls, against a model in NumPy.

A program uses one optimizer in eager code, functions and threads. A program of one protocol
must never be refused, and must always compute the values of the model. A program of both
protocols must do the same, but its steps may be refused. `test_calls.py` tests the rules of
`tf_lso.scaling.calls` one by one, and explains the term *place*.

If a program fails, Hypothesis prints the shortest list of steps that fails, too.
"""

import concurrent.futures
import gc
import re
from typing import NamedTuple

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

from tests.families import CURRENT, copies
from tests.scaling.bench import KERAS3, LEGACY, METHODS, NAN, Bench, in_thread

GROWTH = 3  # the number of finite steps after which the scale doubles
# The messages of the errors that a program of both protocols may get.
REFUSALS = "cannot know whether|is neither unscaled nor applied"

PROTOCOLS = {"legacy": [LEGACY], "keras3": [KERAS3], "both": METHODS}
EXAMPLES = {"legacy": 4, "keras3": 4, "both": 12}  # the number of random programs

# A "thread" ends after the call, and the "worker" is a thread that does not end. A "collected"
# function is deleted after the call. "eager" is drawn more often, because tracing is slow.
PLACES = [*["eager"] * 4, "thread", "worker", "function", "collected", "xla"]


class Step(NamedTuple):
    """A step of a random program. `is_copied` and below are used by steps in several places."""

    method: str  # the method that scales the loss
    places: tuple  # one place, or the places that scale, unscale and apply
    factor: float  # multiplies the loss
    way: str  # how a step in one place scales and applies
    new_scale: float | None  # the scale that is set between scaling and applying
    is_copied: (
        bool  # whether an equal tensor, which the optimizer does not know, is applied
    )
    end: str  # whether the gradient is applied now, after the next step, or never


def programs(protocols):
    """Return a Hypothesis strategy for lists of steps."""
    # Programs that keep gradients of both protocols in flight in several places are not
    # supported, so here the places of such a step are all eager.
    parts = ["eager"] if protocols == "both" else [p for p in PLACES if p != "xla"]
    part = st.sampled_from(parts)
    step = st.builds(
        Step,
        method=st.sampled_from(PROTOCOLS[protocols]),
        places=st.tuples(st.sampled_from(PLACES)) | st.tuples(part, part, part),
        factor=st.sampled_from([1.0, 1.0, NAN]),
        way=st.sampled_from(["plain", "two losses", "minimize", "loop"]),
        new_scale=st.sampled_from([None, None, 2.0, 8.0, 64.0]),
        is_copied=st.booleans(),
        end=st.sampled_from(["applied", "applied", "applied late", "dropped"]),
    )
    return st.lists(step, min_size=1, max_size=12)


class Model:
    """The expected values of x, the scale, and the count of finite steps."""

    def __init__(self, replicas):
        self.x, self.scale, self.count = np.float32(0.0), np.float32(8.0), 0
        self.replicas = replicas

    def set_scale(self, scale):
        self.scale, self.count = np.float32(scale), 0

    def apply(self, gradient):
        """Take a step with an unscaled gradient, which is the same on each replica."""
        if not np.isfinite(gradient):
            self.set_scale(max(self.scale / 2, 1.0))
            return
        self.x -= gradient * self.replicas
        self.count += 1
        if self.count == GROWTH:
            self.set_scale(self.scale * 2)


class Program:
    """A random program of one optimizer."""

    def __init__(self, is_mixed, strategy=None):
        # One family is enough, because all families share `tf_lso.scaling`.
        self.bench = Bench(CURRENT, growth=GROWTH, strategy=strategy)
        self.model = Model(self.bench.replicas)
        self.is_mixed = is_mixed
        self.worker = concurrent.futures.ThreadPoolExecutor(1)
        self.functions = {}
        self.late = []  # gradients that are applied after the next step

    def run(self, steps):
        with self.worker:
            for step in steps:
                late, self.late = self.late, []
                try:
                    if len(step.places) == 1:
                        self.take_at_once(step)
                    else:
                        self.take_in_parts(step)
                    for gradient in late:
                        self.apply("eager", *gradient)
                except (RuntimeError, tf.errors.InvalidArgumentError) as error:
                    if not self.is_mixed or not re.search(REFUSALS, str(error)):
                        raise
                    self.late = []
                    for place in ("eager", "worker"):
                        self.call(place, "drop", self.bench.drop_scaled_loss)
                self.check()

    def call(self, place, name, function, *values):
        """Call a function of tensors in a place, and return the result.

        In the places "function" and "xla", the function is traced only once for each name.
        """
        if place == "eager":
            return function(*values)
        if place == "thread":
            return in_thread(function, *values)
        if place == "worker":
            return self.worker.submit(function, *values).result()
        traced = tf.function(function, autograph=False, jit_compile=place == "xla")
        if place != "collected":
            return self.functions.setdefault((place, name), traced)(*values)
        result = traced(*values)
        del traced
        gc.collect()
        return result

    def take_at_once(self, step):
        bench, method, (place,) = self.bench, step.method, step.places

        def plain(factor):
            bench.step(method, factor)

        def two_losses(factor):
            first = bench.gradient(method, factor)
            bench.apply((first + bench.gradient(method, 1.0)) / 2.0)

        def minimize(factor):
            bench.optimizer.minimize(lambda: 2.0 * bench.x * factor, [bench.x])

        def loop(factor):
            def body(iteration):
                plain(factor)
                return [iteration + 1]

            tf.while_loop(lambda iteration: iteration < 1, body, [tf.constant(0)])

        ways = {"two losses": two_losses}
        if method == LEGACY:
            ways["minimize"] = minimize
        if place in ("function", "collected"):
            ways["loop"] = loop
        function, name = ways.get(step.way, plain), f"{step.way} {method}"
        self.call(place, name, function, tf.constant(step.factor))
        self.model.apply(np.float32(2.0 * step.factor))

    def take_in_parts(self, step):
        bench, method = self.bench, step.method
        scaled_in, unscaled_in, applied_in = step.places
        tensor = self.call(
            scaled_in,
            method,
            lambda factor: bench.scaled(method, factor),
            tf.constant(step.factor),
        )
        value = np.float32(2.0 * step.factor) * self.model.scale
        self.check_gradient(tensor, value)
        if step.new_scale is not None:
            bench.optimizer.loss_scale = step.new_scale
            self.model.set_scale(step.new_scale)
        if method == LEGACY:
            tensor = self.call(unscaled_in, "unscale", bench.unscale, tensor)
            value = value / self.model.scale
            self.check_gradient(tensor, value)
        if step.is_copied:
            tensor = self.call("eager", "copy", tf.add, tensor, 0.0)
        if step.end == "applied":
            self.apply(applied_in, tensor, method, value)
        elif step.end == "applied late":
            self.late.append((tensor, method, value))
        elif self.is_mixed and method == KERAS3:
            bench.drop_scaled_loss()

    def apply(self, place, tensor, method, value):
        self.call(place, "apply", self.bench.apply, tensor)
        self.model.apply(value / self.model.scale if method == KERAS3 else value)

    def replica_values(self, tensor):
        """Return a list of the values of a tensor on all replicas."""
        return [tensor]

    def check_gradient(self, tensor, value):
        for replica_value in self.replica_values(tensor):
            np.testing.assert_array_equal(replica_value, value)

    def check(self):
        """Check that x, the scale and the count are those of the model."""
        optimizer, model = self.bench.optimizer, self.model
        assert {float(copy) for copy in copies(self.bench.x)} == {model.x}
        assert float(optimizer.loss_scale) == model.scale
        assert set(copies(optimizer.dynamic_counter)) == {model.count}


class ProgramOfReplicas(Program):
    """A random program that runs in eager replicas. Each replica computes a gradient."""

    def call(self, place, name, function, *values):
        return self.bench.strategy.run(function, args=values)

    def replica_values(self, tensor):
        return self.bench.strategy.experimental_local_results(tensor)


def check_programs(program_of, protocols, examples):
    """Run random programs. `program_of(is_mixed)` returns a `Program`."""

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(programs(protocols))
    def check(steps):
        program_of(protocols == "both").run(steps)

    check()


@pytest.mark.parametrize("examples", [None, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("protocols", PROTOCOLS)
def test_programs(protocols, examples):
    check_programs(Program, protocols, examples or EXAMPLES[protocols])


@pytest.mark.parametrize("examples", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("protocols", PROTOCOLS)
def test_programs_of_replicas(protocols, examples, mirrored2):
    check_programs(
        lambda is_mixed: ProgramOfReplicas(is_mixed, mirrored2), protocols, examples
    )
