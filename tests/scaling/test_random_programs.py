"""Random programs of scaling calls, against a model in NumPy.

A program uses one optimizer in eager code, functions and threads. `tf_lso.scaling.calls`
promises that a program of one protocol is never refused and always right, and that a
program of both is right or refused. `test_calls.py` has the rules one by one.

When a program fails, Hypothesis removes what the failure does not need and prints the rest
as Python.
"""

import concurrent.futures
import contextlib
import gc
import re

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.families import copies
from tests.scaling.bench import KERAS3, LEGACY, NAN, Bench, in_thread
from tf_lso.frameworks import log

GROWTH = 3
REFUSALS = "cannot know whether|is neither unscaled nor applied"
WARNING = "a tf.function that only applies gradients was traced before"

KINDS = {"legacy": (LEGACY,), "keras3": (KERAS3,), "both": (LEGACY, KERAS3)}
EXAMPLES = {"legacy": 4, "keras3": 4, "both": 12}

EAGER = ("eager",) * 4  # is drawn more often, since a function takes long to trace
FACTORS = st.sampled_from([1.0, 1.0, NAN])  # of the loss
SCALES = st.sampled_from([2.0, 8.0, 64.0])


def of_machine(attribute):
    """Draw from a tuple that is an attribute of the running machine."""
    return st.runner().flatmap(lambda run: st.sampled_from(getattr(run, attribute)))


PLACES, PLACES_OF_PARTS = of_machine("places"), of_machine("places_of_parts")
METHODS = of_machine("methods")
# A way that a protocol or a place does not have is the plain one.
WAYS = st.sampled_from(["plain", "two losses", "minimize", "loop", "unscaled"])


class Model:
    """What x, the scale and its count have to be."""

    def __init__(self, replicas):
        self.x, self.scale, self.count = np.float32(0.0), np.float32(8.0), 0
        self.replicas = replicas

    def set_scale(self, scale):
        self.scale, self.count = np.float32(scale), 0

    def apply(self, gradient):
        """Take a step of an unscaled gradient, which is the same on each replica."""
        if not np.isfinite(gradient):
            self.set_scale(max(self.scale / 2, 1.0))
            return
        self.x -= gradient * self.replicas
        self.count += 1
        if self.count == GROWTH:
            self.set_scale(self.scale * 2)


class Gradient:
    """A gradient that a program may still apply.

    Attributes:
      tensor: a tensor, or a value of each replica.
      method: which method has scaled its loss.
      is_scaled: whether it is still multiplied by a scale.
      value: the float32 number that it has to be.
    """

    def __init__(self, tensor, method, is_scaled, value):
        self.tensor, self.method = tensor, method
        self.is_scaled, self.value = is_scaled, np.float32(value)


class Program(RuleBasedStateMachine):
    """A random program of one optimizer.

    Where a program of both protocols takes a step in parts, it keeps gradients of one
    protocol at a time, and only eager code and functions that stay hand them out. The
    kind of any others is not known.
    """

    scaled, gradients = Bundle("scaled"), Bundle("gradients")

    def __init__(self, family, kind, strategy=None):
        super().__init__()
        self.bench = Bench(family, growth=GROWTH, strategy=strategy)
        self.model = Model(self.bench.replicas)
        self.methods, self.is_mixed = KINDS[kind], kind == "both"
        # A thread ends after the call, and the worker is one that stays. A collected
        # function is gone after the call.
        self.places = (*EAGER, "thread", "worker", "function", "collected", "xla")
        self.places_of_parts = (
            (*EAGER, "function") if self.is_mixed else self.places[:-1]
        )
        self.worker = concurrent.futures.ThreadPoolExecutor(1)
        self.functions, self.old_functions = {}, []
        self.waiting = []  # the gradients that may still be applied
        log.logger().addFilter(self.heed)

    def teardown(self):
        log.logger().removeFilter(self.heed)
        self.worker.shutdown()

    # --- What the rules below are made of.

    def call(self, place, function, *values):
        """Call a function of tensors in a place. Its name says what it does."""
        if place == "eager":
            return function(*values)
        if place == "thread":
            return in_thread(function, *values)
        if place == "worker":
            return self.worker.submit(function, *values).result()
        traced = tf.function(function, autograph=False, jit_compile=place == "xla")
        if place != "collected":
            key = (place, function.__name__)
            return self.functions.setdefault(key, traced)(*values)
        result = traced(*values)
        del traced
        gc.collect()
        return result

    def heed(self, record):
        """Trace functions again if a function that only applies is warned of."""
        if WARNING in record.getMessage():
            self.old_functions.append(self.functions)  # which keeps them alive
            self.functions = {}
        return True

    @contextlib.contextmanager
    def refusals(self):
        """Do what a refusal advises, if this program may be refused."""
        try:
            yield
        except (RuntimeError, tf.errors.InvalidArgumentError) as error:
            if not self.is_mixed or not re.search(REFUSALS, str(error)):
                raise
            self.finish()

    def finish(self):
        """Drop all gradients."""
        for place in ("eager", "worker"):
            self.call(place, self.bench.finish)
        self.waiting.clear()

    def may_scale(self, method):
        """Return whether gradients of this method may be made and kept now."""
        waiting = {gradient.method for gradient in self.waiting}
        return method in self.methods and waiting <= {method}

    def keep(self, tensor, method, is_scaled, value):
        """Check the value of a gradient that the program keeps."""
        for found in self.values(tensor):
            np.testing.assert_array_equal(found, value)
        gradient = Gradient(tensor, method, is_scaled, value)
        self.waiting.append(gradient)
        return gradient

    def values(self, tensor):
        return [tensor]

    def check(self):
        """Assert that x, the scale and its count are those of the model."""
        optimizer, model = self.bench.optimizer, self.model
        assert {float(copy) for copy in copies(self.bench.x)} == {model.x}
        assert float(optimizer.loss_scale) == model.scale
        assert set(copies(optimizer.dynamic_counter)) == {model.count}

    def forget(self, gradient):
        if gradient in self.waiting:
            self.waiting.remove(gradient)

    # --- Whole steps.

    @rule(place=PLACES, method=METHODS, way=WAYS, factor=FACTORS)
    def step(self, place, method, way, factor):
        bench = self.bench

        def plain(factor):
            bench.step(method, factor)

        def two_losses(factor):
            first, second = (bench.gradient(method, f) for f in (factor, 1.0))
            bench.apply((first + second) / 2.0)

        def minimize(factor):
            bench.optimizer.minimize(lambda: 2.0 * bench.x * factor, [bench.x])

        def loop(factor):
            body = lambda i: (plain(factor), [i + 1])[1]  # noqa: E731
            tf.while_loop(lambda i: i < 1, body, [tf.constant(0)])

        def unscaled(factor):
            bench.apply(bench.unscale(bench.scaled(method, factor)))

        ways = {"plain": plain, "two losses": two_losses}
        if method == LEGACY:
            ways["minimize"] = minimize
        if place in ("function", "collected"):
            ways["loop"] = loop
        if self.is_mixed:
            ways["unscaled"] = unscaled
        function = ways.get(way, plain)
        function.__name__ += f" {method}"
        with self.refusals():
            self.call(place, function, tf.constant(factor))
            self.model.apply(np.float32(2.0 * factor))
        self.check()

    @rule(place=st.sampled_from(["eager", "worker"]), method=METHODS, scale=SCALES)
    def step_while_the_scale_is_set(self, place, method, scale):
        with self.refusals():
            gradient = self.call(place, self.bench.gradient, method)
            value = 2.0 * (self.model.scale / scale if method == KERAS3 else 1.0)
            self.set_scale(scale)
            self.call(place, self.bench.apply, gradient)
            self.model.apply(np.float32(value))
        self.check()

    # --- Parts of steps.

    @precondition(lambda self: self.may_scale(LEGACY))
    @rule(target=scaled, place=PLACES_OF_PARTS, factor=FACTORS)
    def get_scaled_loss(self, place, factor):
        return self.scale_a_loss(LEGACY, place, factor)

    @precondition(lambda self: self.may_scale(KERAS3))
    @rule(target=gradients, place=PLACES_OF_PARTS, factor=FACTORS)
    def scale_loss(self, place, factor):
        return self.scale_a_loss(KERAS3, place, factor)

    def scale_a_loss(self, method, place, factor):
        def scaled(factor):
            return self.bench.scaled(method, factor)

        scaled.__name__ += f" {method}"
        with self.refusals():
            tensor = self.call(place, scaled, tf.constant(factor))
            value = np.float32(2.0 * factor) * self.model.scale
            return self.keep(tensor, method, True, value)
        return multiple()

    @rule(target=gradients, gradient=consumes(scaled), place=PLACES_OF_PARTS)
    def get_unscaled_gradients(self, gradient, place):
        if gradient not in self.waiting:
            return multiple()
        self.forget(gradient)
        with self.refusals():
            tensor = self.call(place, self.bench.unscale, gradient.tensor)
            return self.keep(tensor, LEGACY, False, gradient.value / self.model.scale)
        return multiple()

    @rule(target=gradients, gradient=consumes(gradients))
    def clip(self, gradient):
        """Make another tensor of a gradient."""
        if gradient not in self.waiting:
            return multiple()
        self.forget(gradient)
        tensor = self.call("eager", tf.add, gradient.tensor, 0.0)
        return self.keep(tensor, gradient.method, gradient.is_scaled, gradient.value)

    @rule(
        target=gradients,
        gradient=consumes(gradients),
        place=PLACES_OF_PARTS,
        by=st.sampled_from(["apply_gradients", "apply"]),
        is_kept=st.booleans(),
    )
    def apply(self, gradient, place, by, is_kept):
        def apply_of_keras3(tensor):
            self.bench.optimizer.apply([tensor], [self.bench.x])

        if gradient not in self.waiting:
            return multiple()  # it was dropped after a refusal
        is_of_keras3 = by == "apply" and gradient.is_scaled
        with self.refusals():
            function = apply_of_keras3 if is_of_keras3 else self.bench.apply
            self.call(place, function, gradient.tensor)
            divisor = self.model.scale if gradient.is_scaled else 1.0
            self.model.apply(gradient.value / divisor)
        self.check()
        if is_kept and gradient in self.waiting:
            return gradient
        self.forget(gradient)
        return multiple()

    @rule(gradient=consumes(scaled) | consumes(gradients))
    def drop(self, gradient):
        self.forget(gradient)
        if self.is_mixed and gradient.is_scaled:
            self.bench.finish()  # as the refusals advise

    @rule(scale=SCALES)
    def set_scale(self, scale):
        self.bench.optimizer.loss_scale = scale
        self.model.set_scale(scale)


class ProgramOfReplicas(Program):
    """A random program that runs in eager replicas, each with a gradient of its own."""

    def call(self, place, function, *values):
        return self.bench.strategy.run(function, args=values)

    def values(self, tensor):
        return self.bench.strategy.experimental_local_results(tensor)


def run(machine, examples):
    run_state_machine_as_test(
        machine,
        settings=hypothesis.settings(
            max_examples=examples,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )


# "new" applies a step with the code of "legacy".
@pytest.mark.parametrize("family", ["keras3", "legacy"])
@pytest.mark.parametrize("kind", KINDS)
def test_programs(family, kind):
    run(lambda: Program(family, kind), examples=EXAMPLES[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_programs(family, kind):
    run(lambda: Program(family, kind), examples=40)


@pytest.mark.parametrize("family", ["keras3", "legacy"])
@pytest.mark.parametrize("kind", KINDS)
def test_programs_of_replicas(family, kind, mirrored2):
    run(lambda: ProgramOfReplicas(family, kind, mirrored2), examples=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_programs_of_replicas(family, kind, mirrored2):
    run(lambda: ProgramOfReplicas(family, kind, mirrored2), examples=20)
